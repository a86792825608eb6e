// The executor of the `webgpu` device in a page and in Node: drains the recorder's command streams on WebGPU.
//
// A stream lies in Pyodide's memory, in the format of webgpu/src/stream.rs. Uploads go from that memory straight to the
// queue. This file is an expression: a function from Pyodide's Emscripten module to `open`.
(module) => {
  "use strict";

  const ALIGNMENT = 256; // of uniforms' offsets
  const UNIFORMS = 1 << 20; // bytes of the uniform buffer; a stream with more is cut into several submissions
  const STAGING = 1 << 20; // the same for small uploads that wait among dispatches
  const GROUPS = 8192; // bind groups kept

  const bytes = () => module.HEAPU8;
  const utf8 = new TextDecoder();

  class Executor {
    constructor(device, info, limits) {
      this.device = device;
      this.queue = device.queue;
      this.info = info;
      this.limits = limits;
      this.buffers = new Map();
      this.pipelines = new Map();
      this.groups = new Map();
      this.reads = new Map();
      this.lastRead = 0;
      this.spare = [];
      // Work that failed spoils what later reads would give: the first error stays until the device is opened anew.
      this.error = null;
      this.scopes = new Set();
      const usage = GPUBufferUsage;
      this.uniforms = device.createBuffer({ size: UNIFORMS, usage: usage.UNIFORM | usage.COPY_DST });
      this.staging = device.createBuffer({ size: STAGING, usage: usage.COPY_SRC | usage.COPY_DST });
      this.params = new Uint8Array(UNIFORMS);
      this.staged = new Uint8Array(STAGING);
      this.uniformAt = 0;
      this.stagedAt = 0;
      this.encoder = null;
      this.pass = null;
      device.addEventListener("uncapturederror", (event) => this.fail(event.error.message));
      device.lost.then((lost) => {
        if (lost.reason !== "destroyed") this.fail(`the device was lost: ${lost.message || lost.reason}`);
      });
    }

    fail(message) {
      this.error ??= message;
    }

    /** Runs the stream of `words` words at `address`. Errors of the device come with the next read. */
    submit(address, words) {
      if (this.error) throw new Error(this.error);
      this.device.pushErrorScope("out-of-memory");
      this.device.pushErrorScope("validation");
      try {
        this.run(address >>> 0, words >>> 0);
        this.flush();
      } finally {
        this.endPass();
        for (const kind of ["a command is invalid", "memory is exhausted"]) {
          const scope = this.device.popErrorScope().then(
            (error) => {
              if (error) this.fail(`${kind}: ${error.message}`);
              this.scopes.delete(scope);
            },
            () => this.scopes.delete(scope),
          );
          this.scopes.add(scope);
        }
      }
    }

    run(address, words) {
      const memory = new Uint32Array(bytes().buffer, address, words);
      const wide = (i) => memory[i] + memory[i + 1] * 4294967296;
      for (let at = 0; at < words; ) {
        const code = memory[at] & 255;
        const count = memory[at] >>> 8;
        let i = at + 1;
        const end = i + count;
        at = end;
        switch (code) {
          case 1: {
            const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
            this.buffers.set(memory[i], this.device.createBuffer({ size: wide(i + 1), usage }));
            break;
          }
          case 2: {
            this.flush();
            this.buffers.get(memory[i])?.destroy();
            this.buffers.delete(memory[i]);
            this.groups.clear();
            break;
          }
          case 3: {
            const [id, params, n] = [memory[i], memory[i + 1], memory[i + 2]];
            i += 3;
            const access = memory.slice(i, i + n);
            i += n;
            const text = () => {
              const length = memory[i];
              const start = address + (i + 1) * 4;
              i += 1 + Math.ceil(length / 4);
              return utf8.decode(bytes().slice(start, start + length));
            };
            const name = text();
            this.compile(id, name, text(), access, params);
            break;
          }
          case 4: {
            // Large: without a copy of its own, after what was recorded before it.
            this.flush();
            const [offset, from, length] = [wide(i + 1), wide(i + 3), wide(i + 5)];
            this.queue.writeBuffer(this.buffer(memory[i]), offset, bytes(), from, length);
            break;
          }
          case 5: {
            const length = (count - 3) * 4;
            const start = address + (i + 3) * 4;
            if (length > STAGING) {
              this.flush();
              this.queue.writeBuffer(this.buffer(memory[i]), wide(i + 1), bytes(), start, length);
              break;
            }
            if (this.stagedAt + length > STAGING) this.flush();
            this.staged.set(bytes().subarray(start, start + length), this.stagedAt);
            this.endPass();
            this.commands().copyBufferToBuffer(
              this.staging, this.stagedAt, this.buffer(memory[i]), wide(i + 1), length,
            );
            this.stagedAt += length;
            break;
          }
          case 6:
            this.dispatch(memory, i, end);
            break;
          case 7: {
            const [from, start, to, target] = [memory[i], wide(i + 1), memory[i + 3], wide(i + 4)];
            this.endPass();
            this.commands().copyBufferToBuffer(this.buffer(from), start, this.buffer(to), target, wide(i + 6));
            break;
          }
          case 8:
            this.endPass();
            this.commands().clearBuffer(this.buffer(memory[i]), wide(i + 1), wide(i + 3));
            break;
          default:
            throw new Error(`unknown command ${code}`);
        }
      }
    }

    dispatch(memory, i, end) {
      const pipeline = this.pipelines.get(memory[i]);
      if (!pipeline) throw new Error(`there is no pipeline ${memory[i]}`);
      const n = memory[i + 4];
      const slices = i + 5;
      const params = slices + 5 * n;
      const size = (end - params) * 4;
      if (this.uniformAt + size > UNIFORMS) this.flush();
      // The same program on the same slices needs its bind group once: the uniform's offset is dynamic.
      let key = "";
      for (let j = slices; j < params; j++) key += `${memory[j]},`;
      key += memory[i];
      let group = this.groups.get(key);
      if (!group) {
        const entries = [];
        for (let j = slices; j < params; j += 5) {
          const offset = memory[j + 1] + memory[j + 2] * 4294967296;
          const length = memory[j + 3] + memory[j + 4] * 4294967296;
          entries.push({ binding: entries.length, resource: { buffer: this.buffer(memory[j]), offset, size: length } });
        }
        if (size) entries.push({ binding: n, resource: { buffer: this.uniforms, offset: 0, size } });
        group = this.device.createBindGroup({ layout: pipeline.layout, entries });
        if (this.groups.size >= GROUPS) this.groups.clear();
        this.groups.set(key, group);
      }
      this.pass ??= this.commands().beginComputePass();
      this.pass.setPipeline(pipeline.pipeline);
      if (size) {
        new Uint32Array(this.params.buffer, this.uniformAt, size / 4).set(memory.subarray(params, end));
        this.pass.setBindGroup(0, group, [this.uniformAt]);
        this.uniformAt += Math.ceil(size / ALIGNMENT) * ALIGNMENT;
      } else {
        this.pass.setBindGroup(0, group);
      }
      this.pass.dispatchWorkgroups(memory[i + 1], memory[i + 2], memory[i + 3]);
    }

    compile(id, name, code, access, params) {
      const visibility = GPUShaderStage.COMPUTE;
      const entries = Array.from(access, (writes, binding) => ({
        binding,
        visibility,
        buffer: { type: writes ? "storage" : "read-only-storage" },
      }));
      if (params) {
        const buffer = { type: "uniform", hasDynamicOffset: true, minBindingSize: params };
        entries.push({ binding: entries.length, visibility, buffer });
      }
      const layout = this.device.createBindGroupLayout({ label: name, entries });
      const pipeline = this.device.createComputePipeline({
        label: name,
        layout: this.device.createPipelineLayout({ bindGroupLayouts: [layout] }),
        compute: { module: this.device.createShaderModule({ label: name, code }), entryPoint: "main" },
      });
      this.pipelines.set(id, { pipeline, layout });
    }

    buffer(id) {
      const buffer = this.buffers.get(id);
      if (!buffer) throw new Error(`there is no buffer ${id}`);
      return buffer;
    }

    commands() {
      return (this.encoder ??= this.device.createCommandEncoder());
    }

    endPass() {
      this.pass?.end();
      this.pass = null;
    }

    /** Submits what is encoded. What is written to the queue takes effect before it, after all earlier submissions. */
    flush() {
      this.endPass();
      if (this.uniformAt) this.queue.writeBuffer(this.uniforms, 0, this.params, 0, this.uniformAt);
      if (this.stagedAt) this.queue.writeBuffer(this.staging, 0, this.staged, 0, this.stagedAt);
      this.uniformAt = this.stagedAt = 0;
      if (this.encoder) this.queue.submit([this.encoder.finish()]);
      this.encoder = null;
    }

    /** Begins to read slices (an array of buffer, offset, size), and gives a number to `wait` for and to `take` by. */
    start(slices) {
      if (this.error) throw new Error(this.error);
      let size = 0;
      for (let i = 2; i < slices.length; i += 3) size += slices[i];
      const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
      const at = this.spare.findIndex((buffer) => buffer.size >= size && buffer.size <= 4 * size + 4096);
      const [target] = at >= 0 ? this.spare.splice(at, 1) : [this.device.createBuffer({ size, usage })];
      const encoder = this.device.createCommandEncoder();
      let end = 0;
      for (let i = 0; i < slices.length; i += 3) {
        encoder.copyBufferToBuffer(this.buffer(slices[i]), slices[i + 1], target, end, slices[i + 2]);
        end += slices[i + 2];
      }
      this.queue.submit([encoder.finish()]);
      const mapped = target.mapAsync(GPUMapMode.READ, 0, size);
      // Looked at by `wait`; a rejection before that is no unhandled one.
      mapped.catch(() => {});
      this.reads.set(++this.lastRead, { target, size, mapped, settled: false });
      return this.lastRead;
    }

    /** Whether `wait` has resolved. */
    settled(id) {
      return this.reads.get(id)?.settled ?? false;
    }

    /** Resolves when a read is there and all work before it is known to have gone well. */
    async wait(id) {
      const read = this.reads.get(id);
      if (!read) throw new Error("the read was cancelled");
      const { mapped } = read;
      try {
        await mapped;
        await Promise.all(this.scopes);
      } catch (error) {
        this.fail(error.message);
      }
      if (this.error) {
        this.cancel(id);
        throw new Error(this.error);
      }
      read.settled = true;
    }

    /** Copies what was read to `address`. */
    take(id, address) {
      const { target, size } = this.reads.get(id);
      this.reads.delete(id);
      bytes().set(new Uint8Array(target.getMappedRange(0, size)), address >>> 0);
      target.unmap();
      this.spare.push(target);
      while (this.spare.length > 4) this.spare.shift().destroy();
    }

    /** Forgets a read that nobody takes. */
    cancel(id) {
      this.reads.get(id)?.target.destroy();
      this.reads.delete(id);
    }

    /** Gives the device back. */
    close() {
      this.fail("the device was closed");
      this.device.destroy();
    }
  }

  const LIMITS = [
    "maxBufferSize",
    "maxStorageBufferBindingSize",
    "maxStorageBuffersPerShaderStage",
    "maxComputeWorkgroupsPerDimension",
    "maxComputeInvocationsPerWorkgroup",
    "maxComputeWorkgroupSizeX",
    "maxComputeWorkgroupSizeY",
    "maxComputeWorkgroupSizeZ",
    "maxComputeWorkgroupStorageSize",
  ];

  /** Opens the adapter that the system prefers; the reason when there is none is the error's message. */
  return async () => {
    const gpu = globalThis.navigator?.gpu;
    if (!gpu) throw new Error("this browser has no WebGPU (navigator.gpu is missing)");
    const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter) throw new Error("WebGPU gave no adapter: the GPU or its driver is blocked, or a flag is needed");
    const requiredLimits = Object.fromEntries(
      LIMITS.filter((name) => adapter.limits[name] !== undefined).map((name) => [name, adapter.limits[name]]),
    );
    const requiredFeatures = ["shader-f16", "subgroups"].filter((name) => adapter.features.has(name));
    const device = await adapter.requestDevice({ requiredLimits, requiredFeatures });
    const info = adapter.info ?? {};
    const limits = {
      shader_f16: requiredFeatures.includes("shader-f16"),
      subgroups: requiredFeatures.includes("subgroups"),
      min_subgroup_size: info.subgroupMinSize ?? 0,
      max_subgroup_size: info.subgroupMaxSize ?? 0,
      max_buffer_size: requiredLimits.maxBufferSize,
      max_storage_buffer_binding_size: requiredLimits.maxStorageBufferBindingSize,
      max_storage_buffers_per_shader_stage: requiredLimits.maxStorageBuffersPerShaderStage,
      max_compute_workgroups_per_dimension: requiredLimits.maxComputeWorkgroupsPerDimension,
      max_compute_invocations_per_workgroup: requiredLimits.maxComputeInvocationsPerWorkgroup,
      max_compute_workgroup_storage_size: requiredLimits.maxComputeWorkgroupStorageSize,
    };
    const about = { vendor: info.vendor, architecture: info.architecture, device: info.device, description: info.description };
    return new Executor(device, about, limits);
  };
};
