/** What the paywall page adds to the style of all pages (`theme.ts`). */

export const PAYWALL_CSS = [
  "main{max-width:34rem;margin:1rem auto}",
  ".price{font-size:1.9rem;font-weight:700;line-height:1.2;margin:.25rem 0 1rem}",
  ".long{font:inherit}",
  "fieldset{border:0;padding:0;margin:0 0 1rem}legend{font-weight:600;padding:0;margin-bottom:.4rem}",
  "label{display:flex;align-items:start;gap:.7rem;border:1px solid var(--line);border-radius:8px;padding:.6rem .8rem;",
  "margin:.4rem 0;cursor:pointer}label:has(:checked){border-color:var(--accent)}",
  "input[type=radio]{min-height:0;accent-color:var(--accent);margin:.35rem 0 0}",
  "label span{display:flex;flex-wrap:wrap;gap:0 .4rem}small{flex-basis:100%;color:var(--dim)}",
  "#main button{width:100%;margin:.3rem 0}#bought>a,#bought>button{display:block;margin-top:.6rem}",
  "#status:not(:empty){border-left:3px solid var(--accent);padding-left:.75rem}",
  "#status.bad{border-color:var(--bad)}",
  "details{border-top:1px solid var(--line);margin-top:1rem;padding-top:.75rem}",
  "summary{cursor:pointer}.wide{max-width:75rem}",
  "img{max-width:100%}img,iframe{background:#fff}iframe{color-scheme:light;width:100%;height:75vh;",
  "border:1px solid var(--line)}",
].join("");
