// A package index of local folders, over HTTP on this machine: what micropip needs, and nothing from outside.
import crypto from "node:crypto";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";

/** A package's name as the index compares it. */
const normal = (name) => name.toLowerCase().replace(/[-_.]+/g, "-");

/** The wheels of the folders by file name. A file in an earlier folder hides one of the same name in a later. */
export function wheels(folders) {
  const found = new Map();
  for (const folder of folders) {
    for (const file of fs.readdirSync(folder).sort()) {
      if (file.endsWith(".whl") && !found.has(file)) found.set(file, path.join(folder, file));
    }
  }
  return found;
}

/** The SHA-256 of a file, in hexadecimal. */
export function sha256(file) {
  return crypto.createHash("sha256").update(fs.readFileSync(file)).digest("hex");
}

/** Serves the folders as a "simple" index (its JSON form). Gives the address and a function that stops it. */
export async function serve(folders) {
  const files = wheels(folders);
  const page = (name, address) => ({
    meta: { "api-version": "1.1" },
    name,
    files: [...files]
      .filter(([file]) => normal(file.split("-")[0]) === name)
      .map(([file, where]) => ({
        filename: file,
        url: `${address}/files/${file}`,
        hashes: { sha256: sha256(where) },
        size: fs.statSync(where).size,
      })),
    versions: [],
  });
  const server = http.createServer((request, response) => {
    const address = `http://127.0.0.1:${server.address().port}`;
    const [, kind, name] = decodeURIComponent(new URL(request.url, address).pathname).split("/");
    if (kind === "files" && files.has(name)) {
      response.writeHead(200, { "content-type": "application/octet-stream" });
      fs.createReadStream(files.get(name)).pipe(response);
      return;
    }
    const found = kind === "simple" ? page(normal(name ?? ""), address) : { files: [] };
    if (!found.files.length) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { "content-type": "application/vnd.pypi.simple.v1+json" });
    response.end(JSON.stringify(found));
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  server.unref();
  return { address: `http://127.0.0.1:${server.address().port}`, files, close: () => server.close() };
}
