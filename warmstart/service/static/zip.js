// A folder as a ZIP whose files are stored as they are.
const TABLE = new Uint32Array(256).map((_, n) => {
  for (let k = 0; k < 8; k++) n = n & 1 ? 0xedb88320 ^ (n >>> 1) : n >>> 1;
  return n >>> 0;
});

function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = TABLE[(crc ^ byte) & 255] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

function header(signature, fields, name) {
  const view = new DataView(new ArrayBuffer(4 + fields.reduce((sum, [size]) => sum + size, 0)));
  view.setUint32(0, signature, true);
  let at = 4;
  for (const [size, value] of fields) {
    size === 2 ? view.setUint16(at, value, true) : view.setUint32(at, value, true);
    at += size;
  }
  return [view.buffer, name];
}

// The files of what was dropped, with their paths in it.
export async function filesIn(entry, folder = "") {
  if (entry.isFile) {
    const file = await new Promise((good, bad) => entry.file(good, bad));
    if (folder) Object.defineProperty(file, "webkitRelativePath", { value: folder + file.name });
    return [file];
  }
  const reader = entry.createReader();
  const found = [];
  for (;;) { // a hundred at a time
    const part = await new Promise((good, bad) => reader.readEntries(good, bad));
    if (!part.length) break;
    found.push(...part);
  }
  return (await Promise.all(found.map((each) => filesIn(each, `${folder}${entry.name}/`)))).flat();
}

// A ZIP of this kind counts files in 16 bits and bytes in 32, of which the highest number means something else.
function checkSize(files) {
  const size = files.reduce((sum, each) => sum + each.size + 100 + 6 * (each.webkitRelativePath || each.name).length, 22);
  if (files.length < 0xffff && size < 0xffffffff) return;
  const got = `${files.length.toLocaleString("en")} of ${(size / 2 ** 30).toFixed(1)} GiB`;
  throw new Error(`Expected fewer than 65,535 images of less than 4 GiB together, got ${got}. Choose a sample: 400 images are looked at.`);
}

export async function zipOf(files) {
  checkSize(files);
  const parts = [], central = [];
  let offset = 0;
  for (const file of files) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    const name = new TextEncoder().encode(file.webkitRelativePath || file.name);
    const common = [[2, 20], [2, 0x800], [2, 0], [2, 0], [2, 33], [4, crc32(bytes)], [4, bytes.length], [4, bytes.length], [2, name.length], [2, 0]];
    const local = header(0x04034b50, common, name);
    parts.push(...local, bytes);
    central.push(...header(0x02014b50, [[2, 20], ...common, [2, 0], [2, 0], [2, 0], [4, 0], [4, offset]], name));
    offset += local[0].byteLength + name.length + bytes.length;
  }
  const size = central.reduce((sum, part) => sum + part.byteLength, 0);
  const end = header(0x06054b50, [[2, 0], [2, 0], [2, files.length], [2, files.length], [4, size], [4, offset], [2, 0]], new Uint8Array());
  return new Blob([...parts, ...central, ...end], { type: "application/zip" });
}
