/** How the operator's overview looks, on top of the theme. */

export const OVERVIEW_CSS = [
  "body{max-width:72rem;margin:0 auto}",
  "header{display:flex;flex-wrap:wrap;gap:.25rem 1rem;align-items:baseline;margin-bottom:.75rem}header h1{margin:0}",
  "header nav{margin-left:auto;display:flex;flex-wrap:wrap;gap:0 1rem}header nav a{padding:.6rem 0}",
  "section,#money>.card{margin:0 0 1rem}section h2{margin:0 0 .5rem}",
  ".state{margin:.25rem 0 0}ul{margin:.25rem 0;padding-left:1.2rem}",
  ".units{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr));gap:1rem}",
  ".sum{font-size:1.6rem;line-height:1.2;font-weight:600}",
  ".chart{display:block;width:100%;height:6rem;margin-top:.5rem}.chart rect{fill:var(--accent)}",
  ".chart line{stroke:var(--line)}.days{display:flex;justify-content:space-between;margin:0;font-size:.875rem}",
  ".flow{list-style:none;margin:0;padding:0}.flow li{display:grid;grid-template-columns:9rem 6rem 1fr;gap:.75rem;align-items:center}",
  ".flow b{text-align:right;font-variant-numeric:tabular-nums}.flow svg{width:100%;height:.75rem}.flow rect{fill:var(--accent)}",
  ".wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.9375rem}",
  "th,td{text-align:left;padding:.35rem .75rem .35rem 0;border-bottom:1px solid var(--line);vertical-align:top}",
  "th,td.n{white-space:nowrap}td{min-width:8rem}td.n{min-width:0}",
  "th{color:var(--dim);font-weight:500}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}",
  ".needs li{margin:.35rem 0}.needs code{display:block}",
  "@media(max-width:40rem){.flow li{grid-template-columns:1fr auto}.flow svg{grid-column:1/-1}.sum{font-size:1.35rem}}",
].join("");
