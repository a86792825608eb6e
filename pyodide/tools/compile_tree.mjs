// node compile_tree.mjs PYODIDE_DIR SOURCE_TREE OUT_DIR PREFIX PACKAGE...
//
// Compiles the .py files of the packages with the CPython inside the given Pyodide, so that the bytecode has exactly
// the magic number of the interpreter that will load it. `a/b.py` becomes `OUT_DIR/a/b.pyc`, the place where
// CPython's sourceless loader looks. PREFIX is the folder that tracebacks will show.
// A file that is not Python of that version (upstream ships code templates named .py) is reported and skipped.
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [pyodideDir, tree, out, prefix, ...packages] = process.argv.slice(2);
if (!packages.length) {
  console.error("usage: compile_tree.mjs PYODIDE_DIR SOURCE_TREE OUT_DIR PREFIX PACKAGE...");
  process.exit(2);
}
const { loadPyodide } = await import(pathToFileURL(path.resolve(pyodideDir, "pyodide.mjs")));
const py = await loadPyodide();
fs.mkdirSync(out, { recursive: true });
py.mountNodeFS("/src", path.resolve(tree));
py.mountNodeFS("/out", path.resolve(out));
py.globals.set("packages", py.toPy(packages));
py.globals.set("prefix", prefix);
py.globals.set("progress", (done, total) => process.stderr.write(`\r  bytecode: ${done} of ${total} files`));
try {
  const skipped = py.runPython(`
import os, warnings
from importlib._bootstrap_external import _code_to_hash_pyc
from importlib.util import source_hash

warnings.simplefilter("ignore")
files = []
for package in packages:
    for folder, folders, names in os.walk("/src/" + package):
        folders[:] = sorted(f for f in folders if f != "__pycache__")
        files += [os.path.join(folder, n) for n in sorted(names) if n.endswith(".py")]
skipped = []
for done, file in enumerate(files):
    relative = file[len("/src/"):]
    with open(file, "rb") as f:
        source = f.read()
    try:
        code = compile(source, prefix + "/" + relative, "exec", dont_inherit=True, optimize=0)
    except SyntaxError as error:
        skipped.append(f"{relative}: {error}")
        continue
    target = "/out/" + relative + "c"
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as f:
        f.write(_code_to_hash_pyc(code, source_hash(source), checked=False))
    if done % 100 == 0:
        progress(done, len(files))
progress(len(files), len(files))
skipped
`);
  process.stderr.write("\n");
  for (const line of skipped.toJs()) console.error(`  skipped ${line}`);
} catch (error) {
  console.error(String(error).slice(0, 3000));
  process.exit(1);
}
