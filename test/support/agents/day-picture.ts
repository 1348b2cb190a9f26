/** Messages between an agent and its server as a picture: who says what, a line for each. */

const LINE = 22;
const MARGIN = 18;
const WIDTH = 1_000;

/** @param lines begin with `→` where the agent asks, with `←` where it is answered */
export function dayPicture(lines: readonly string[]): string {
  const height = lines.length * LINE + 2 * MARGIN;
  const texts = lines.map((line, index) => {
    const y = MARGIN + index * LINE + 15;
    const fill = line.startsWith("→") ? "#58a6ff" : "#e6edf3";
    return `<text x="${MARGIN}" y="${y}" fill="${fill}" xml:space="preserve">${escaped(line)}</text>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14">`,
    `<rect width="${WIDTH}" height="${height}" rx="8" fill="#0d1117"/>`,
    ...texts,
    "</svg>",
    "",
  ].join("\n");
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
