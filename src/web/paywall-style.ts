/** What the paywall page adds to the style of all pages (`theme.ts`). */

export const PAYWALL_CSS = [
  "main{max-width:34rem;margin:1rem auto}main:has(iframe){max-width:75rem}.card+.card{margin-top:1rem}h2{font-size:1.05rem;margin:1rem 0 .5rem}",
  ".price{font-size:1.9rem;font-weight:700;line-height:1.2;margin:.25rem 0 .5rem}",
  ".long{font:inherit}",
  "dl{display:grid;grid-template-columns:auto 1fr;gap:.2rem .9rem;margin:0 0 1rem}dt{color:var(--dim)}dd{margin:0;min-width:0}",
  "mark,small{color:var(--dim);background:none;font-size:.875em}mark{display:inline-block;border:1px solid;border-radius:6px;padding:0 .4em}",
  "fieldset{border:0;padding:0;margin:0 0 1rem;min-width:0}legend{font-weight:600;padding:0;margin-bottom:.4rem}",
  ".ways{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(14rem,100%),1fr));gap:.5rem;margin-bottom:.5rem}",
  "fieldset label{display:flex;align-items:start;gap:.7rem;border:1px solid var(--line);border-radius:8px;",
  "padding:.6rem .8rem;cursor:pointer}label:has(:checked){border-color:var(--accent)}",
  "input[type=radio]{min-height:0;accent-color:var(--accent);margin:.35rem 0 0}",
  "small{display:block}",
  "#main button,form input{width:100%;margin:.3rem 0}#bought a,#bought button{display:block;margin-top:.6rem}#bought dl a{margin:0}",
  "#status:not(:empty){border-left:3px solid var(--accent);padding-left:.75rem}",
  "#status.bad{border-color:var(--bad)}",
  "#steps{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;margin:.5rem 0;padding:0 0 0 1.2rem;color:var(--dim)}",
  "#steps li{padding-right:1rem}#steps .done{list-style:'✓ '}[aria-current]{font-weight:700;color:var(--accent)}",
  "details{border-top:1px solid var(--line);margin-top:1rem;padding-top:.75rem}",
  "summary{cursor:pointer}",
  "svg{width:12rem;max-width:100%;background:#fff;border-radius:8px}",
  "#bought pre{max-height:75vh;overflow:auto}",
  "img{max-width:100%}img,iframe{background:#fff}iframe{color-scheme:light;width:100%;height:75vh;",
  "border:1px solid var(--line)}",
  // Of what was bought only the receipt is printed.
  "@media print{#bought>:not(#receipt),button{display:none!important}.card{border:0}}",
].join("");
