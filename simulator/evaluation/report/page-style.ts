/** The page's style sheet. Wide things scroll inside their own box, so that the page itself never does sideways. */
export const PAGE_STYLE = `
:root{--ink:#1f2937;--paper:#ffffff;--faint:#6b7280;--line:#e5e7eb;--box:#f8fafc;--link:#2563eb;--warn:#b45309}
@media(prefers-color-scheme:dark){:root{--ink:#e5e7eb;--paper:#0f172a;--faint:#9ca3af;--line:#334155;--box:#1e293b;--link:#93c5fd;--warn:#fbbf24}}
*{box-sizing:border-box}
body{margin:0;color:var(--ink);background:var(--paper);font:16px/1.55 system-ui,sans-serif;overflow-wrap:anywhere}
main{max-width:1240px;margin:0 auto;padding:16px}
html{scroll-padding-top:56px}
section{margin-bottom:2em}
p,ul{max-width:80ch}
h1{font-size:1.8rem;margin:.4em 0}
h2{font-size:1.3rem;margin:1em 0 .4em;padding-top:.6em;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.2em 0 .3em}
a{color:var(--link)}
code{font:.85em/1.5 ui-monospace,monospace;background:var(--box);padding:.15em .4em;border-radius:4px}
.provenance,.command{color:var(--faint);font-size:.9rem}
.warning{color:var(--warn);font-weight:600}
.paper{border-left:3px solid var(--line);padding-left:.8em}
nav{position:sticky;top:0;z-index:1;display:flex;gap:.2em 1.1em;padding:.6em 16px;overflow-x:auto;white-space:nowrap;font-size:.85rem;background:var(--paper);border-bottom:1px solid var(--line)}
nav a{color:var(--faint);text-decoration:none}
nav a:hover,nav a:focus-visible{color:var(--link);text-decoration:underline}
@media(min-width:1100px){
html{scroll-padding-top:8px}
body{display:grid;grid-template-columns:230px minmax(0,1fr)}
nav{flex-direction:column;gap:.45em;height:100vh;padding:20px 16px;overflow:auto;white-space:normal;border-bottom:0;border-right:1px solid var(--line)}
main{width:100%;margin:0}
section.figure{min-height:100vh}
}
.numbers{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,210px),1fr));gap:12px;margin:12px 0}
.number{display:block;padding:12px 14px;color:inherit;text-decoration:none;background:var(--box);border:1px solid var(--line);border-radius:8px}
.number b{display:block;font-size:1.9rem;line-height:1.2}
.number span{display:block}
.headline{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:8px 28px;align-items:start}
.headline figure{max-width:620px}
figcaption{padding:2px 4px;font-size:.9rem}
details{margin:.7em 0}
summary{cursor:pointer}
.findings{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,380px),1fr));gap:0 28px}
ul{padding-left:1.2em}
li{margin:.25em 0}
.panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,300px),1fr));gap:12px}
.n1 .panels,.n2 .panels{grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr))}
@media(min-width:1100px){
.n1,.n2{display:grid;grid-template-columns:minmax(0,2fr) minmax(0,1fr);gap:28px}
.n1 .panels{grid-template-columns:minmax(0,600px)}
.n2 .panels{grid-template-columns:repeat(2,minmax(0,1fr));align-content:start}
.n1 .findings,.n2 .findings{align-content:start}
.n2 figure{max-width:max(340px,calc(50vh - 80px))}
}
figure{margin:0;padding:6px;background:var(--box);border:1px solid var(--line);border-radius:8px;max-width:600px}
figure svg{display:block;width:100%;height:auto}
.table{overflow-x:auto;border:1px solid var(--line);border-radius:8px}
table{border-collapse:collapse;font-size:.88rem;width:100%}
th,td{text-align:left;padding:.4em .7em;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:normal}
#paper td:nth-child(2){min-width:8em}
#goals td:first-child{min-width:11em}
small{display:block;color:var(--faint)}
@media(max-width:600px){table{font-size:.8rem}th,td{padding:.35em .45em}}
tr:last-child td{border-bottom:0}
th{background:var(--box);font-weight:600}
`
