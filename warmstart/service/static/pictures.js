// Which files of a folder are sent: those that count for `warmstart suggest`, whose lists a test compares with these.
export const SUFFIXES = ["jpg", "jpeg", "jpe", "jfif", "png", "apng", "avif", "gif", "bmp", "dib", "ppm", "pgm", "pbm", "pnm", "tif", "tiff", "webp", "tga", "jp2", "j2k", "mpo"];
export const IGNORED = ["__macosx", "thumbs.db", "desktop.ini", "@eadir", "$recycle.bin"];

const isPassedOver = (part) => part.startsWith(".") || IGNORED.includes(part.toLowerCase());
const isPicture = (name) => name.includes(".") && SUFFIXES.includes(name.toLowerCase().split(".").pop());

// The pictures among files, and a note on the others; hidden files and those of a system need none.
export function picturesOf(files) {
  const seen = files.filter((each) => !(each.webkitRelativePath || each.name).split("/").some(isPassedOver));
  const others = seen.filter((each) => !isPicture(each.name));
  const note = `left out ${others.length} ${others.length === 1 ? "file" : "files"}, by their endings no pictures, such as ${others[0]?.name}`;
  return { pictures: seen.filter((each) => isPicture(each.name)), notes: others.length ? [note] : [] };
}
