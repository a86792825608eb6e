// Times in Pyodide under Node, as one JSON object on standard output.
//
//   node bench.mjs --modules DIR --release pyodide-314 --wheels DIR --wheels DIR [--checkpoint DIR]
import path from "node:path";

import { boot, flags, text } from "./boot.mjs";

const given = flags(process.argv.slice(2));
const release = given.release ?? "pyodide-314";
const here = import.meta.dirname;
const mounts = { "/tests": path.join(here, "python"), "/demo": path.join(here, "../xtask/py") };
if (given.checkpoint) mounts["/checkpoint"] = given.checkpoint;
const times = {};
let start = performance.now();
const lap = (name) => {
  times[name] = (performance.now() - start) / 1000;
  start = performance.now();
};
try {
  const py = await boot({ modules: given.modules, release, wheels: [given.wheels].flat(), mounts });
  lap("start Pyodide (s)");
  const model = given.checkpoint && release === "pyodide-314";
  for (const name of ["torchnative", ...(model ? ["transformers"] : ["numpy"])]) {
    await py.runPythonAsync(`import micropip\nawait micropip.install(${JSON.stringify(name)})`);
    lap(`install ${name} (s)`);
  }
  await py.runPythonAsync("import torch");
  lap("import torch (s)");
  await py.runPythonAsync(`import sys; sys.path += ["/tests", "/demo"]`);
  const measured = await py.runPythonAsync(`import bench\nbench.main(${model ? '"/checkpoint"' : ""})`);
  console.log(JSON.stringify({ release, times, ...JSON.parse(measured), heap: py._module.HEAPU8.length }));
} catch (error) {
  console.error(text(error));
  process.exit(1);
}
process.exit(0);
