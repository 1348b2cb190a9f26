/** How the catalogue page looks, on top of the theme. */

export const CATALOGUE_CSS = [
  "body{max-width:60rem;margin:0 auto}",
  "form{display:flex;flex-wrap:wrap;gap:.5rem;align-items:end;margin:1rem 0}",
  "form label{flex:1 1 14rem;color:var(--dim);font-size:.875rem}form input{display:block;width:100%}",
  "ul{list-style:none;margin:0;padding:0}ul.list>li{margin:0 0 .4rem;padding:.5rem .9rem}",
  ".line{display:flex;flex-wrap:wrap;gap:.25rem 1rem;align-items:baseline;justify-content:space-between}",
  ".line h3{margin:0;font-size:1rem;font-weight:600}.line code{font-size:.9375rem}",
  ".method{color:var(--dim);font-weight:400;font-size:.8125rem}.price{font-weight:600}",
  "article p{margin:.2rem 0}.prices{margin:.5rem 0;font-size:.9375rem}",
  // One line in a row; whole where the row is open.
  ".about{font-size:.9375rem;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}",
  "article:has([open]) .about{white-space:normal}",
  "h4{font-size:.9375rem;margin:.6rem 0 .2rem}",
  "dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem;margin:0;font-size:.9375rem}dd{margin:0}",
  ".command{display:grid;grid-template-columns:1fr auto;align-items:center;gap:0 .5rem;margin-top:.5rem;",
  "font-size:.875rem}.command pre{grid-column:1/-1;margin:.2rem 0}.copy{padding:.2rem .8rem;min-height:2rem}",
  "summary{cursor:pointer;color:var(--accent);font-size:.875rem;padding:.2rem 0}",
  "pre code{font-size:1em}",
  "nav{display:flex;gap:1rem;justify-content:center;margin:1rem 0}",
  "@media(max-width:30rem){dl{grid-template-columns:1fr}dd{margin-bottom:.35rem}}",
].join("");
