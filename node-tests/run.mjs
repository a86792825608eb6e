// Runs the tests of `python/` in one release of Pyodide under Node, and prints `N passed, N failed`.
//
//   node run.mjs --modules DIR --release pyodide-314 --wheels DIR --wheels DIR [--checkpoint DIR] [--data DIR] [FILE...]
//
// FILE limits the run to test files whose name contains it. The tests of a file share one interpreter; an interpreter
// that dies counts as a failure of the test that killed it, and the rest of the file goes on in a new one.
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { boot, flags, text } from "./boot.mjs";

const here = import.meta.dirname;
const given = flags(process.argv.slice(2));
const release = given.release ?? "pyodide-314";
// transformers' own dependencies have no builds for the older CPython.
const withTransformers = release === "pyodide-314";
const installed = ["torchnative", "numpy", ...(withTransformers ? ["transformers"] : [])];

const mounts = { "/tests": path.join(here, "python") };
if (given.checkpoint) mounts["/checkpoint"] = given.checkpoint;
if (given.data) mounts["/data"] = given.data;
mounts["/demo"] = path.join(here, "../xtask/py");
mounts["/persist"] = fs.mkdtempSync(path.join(os.tmpdir(), "torchnative-"));

/** An interpreter with the packages installed by the commands a user types. */
async function fresh() {
  const start = performance.now();
  const py = await boot({ modules: given.modules, release, wheels: [given.wheels].flat(), mounts });
  for (const name of installed) {
    await py.runPythonAsync(`import micropip\nawait micropip.install(${JSON.stringify(name)})`);
  }
  py.runPython(`import sys; sys.path.insert(0, "/tests")`);
  console.log(`${release}: ${installed.join(", ")} installed in ${seconds(start)}`);
  return py;
}

const seconds = (start) => `${((performance.now() - start) / 1000).toFixed(1)} s`;

const files = fs
  .readdirSync(path.join(here, "python"))
  .filter((file) => /^test_.*\.py$/.test(file))
  .filter((file) => !given.rest.length || given.rest.some((word) => file.includes(word)))
  .sort();

let py = null;
let passed = 0;
const failed = [];
for (const file of files) {
  py ??= await fresh();
  const module = path.basename(file, ".py");
  let names;
  try {
    names = (await py.runPythonAsync(`import harness\nharness.names(${JSON.stringify(module)})`)).toJs();
  } catch (error) {
    failed.push(module);
    console.log(`FAILED ${module}: ${text(error)}`);
    continue;
  }
  for (const name of names) {
    py ??= await fresh();
    const start = performance.now();
    try {
      const problem = await py.runPythonAsync(
        `import harness\nawait harness.run(${JSON.stringify(module)}, ${JSON.stringify(name)})`,
      );
      if (problem) throw new Error(problem);
      passed += 1;
      console.log(`ok ${module}::${name} (${seconds(start)})`);
    } catch (error) {
      failed.push(`${module}::${name}`);
      console.log(`FAILED ${module}::${name}\n${text(error)}`);
      // After a fatal error nothing works in that interpreter any more.
      if (error.pyodide_fatal_error || error instanceof WebAssembly.RuntimeError) py = null;
    }
  }
}
for (const name of failed) console.log(`failed: ${name}`);
console.log(`${passed} passed, ${failed.length} failed`);
fs.rmSync(mounts["/persist"], { recursive: true });
process.exit(failed.length || !passed ? 1 : 0);
