/**
 * Other paths by which common backends serve what has a path already. Nothing in them tells of it, so that a price
 * does not follow: where they are free, what they lead to is.
 */

/** In place of `$` the path stands. Each is what some backend does without being told to. */
const ALIASES = [
  // A slash at the end: Django, Rails, static sites.
  "$/",
  // What follows the name of a script (PATH_INFO): PHP, CGI.
  "$/x",
  // The format as an ending: Rails, Symfony, API Platform, ASP.NET.
  "$.json",
  "$.xml",
  // The file behind a name without an ending: static sites, MultiViews of Apache, try_files of nginx.
  "$.html",
  "$.htm",
  "$.php",
  "$/index.html",
  "$/index.php",
  // The front controller by its name: Laravel, Symfony, WordPress.
  "/index.php$",
  // The same page as data, and any picture in another size: Next.js.
  "/_next/data/BUILD$.json",
  "/_next/image?url=$&w=64&q=75",
] as const;

/** What Next.js has in the place of `BUILD`, as its pages say it. */
const BUILD = "BUILD";

/**
 * Canonical targets, path and query, each once; not the path itself.
 * @param path canonical
 * @param build the name of the build that Next.js serves; undefined: without what needs it
 */
export function aliasesOf(path: string, build?: string): readonly string[] {
  const own = path === "/" ? "" : path;
  const known = build === undefined ? ALIASES.filter((each) => !each.includes(BUILD)) : ALIASES;
  const aliases = known.map((each) => each.replace(BUILD, build ?? "").replace("$", () => own));
  const ending = /^(.*\/[^/]+)\.\w{1,5}$/.exec(own)?.[1];
  if (ending !== undefined) aliases.push(ending);
  return [...new Set(aliases)].filter((each) => each !== path);
}
