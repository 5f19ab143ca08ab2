"""The page's style: readable on a phone and on paper, in light and in dark."""

STYLE = """
:root { color-scheme: light dark; --ink: #1d2329; --quiet: #56606b; --paper: #ffffff; --raised: #f4f6f8;
  --line: #d5dbe1; --link: #0b57a4; --pass: #12693a; --fail: #b3211c; --open: #7a4d00; --add: #e3f5e8;
  --remove: #fdeae8; --hunk: #eaf0fa; --first: #0b6e4f; --second: #b4451f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --quiet: #a3adb8; --paper: #14181c; --raised: #1d2329;
  --line: #36404a; --link: #7ab8ff; --pass: #63d391; --fail: #ff8d85; --open: #f0b95a; --add: #143323;
  --remove: #401d1c; --hunk: #1c2a40; --first: #4fd1a1; --second: #ff9d6e; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
header, main, footer { max-width: 72rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.35rem; margin: 3rem 0 .8rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.12rem; margin: 2rem 0 .4rem; overflow-wrap: anywhere; }
h4 { font-size: 1rem; margin: 2.2rem 0 .4rem; overflow-wrap: anywhere; }
p { margin: .5rem 0; max-width: 46rem; }
a { color: var(--link); }
a:focus-visible, summary:focus-visible, [tabindex]:focus-visible {
  outline: 3px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -9999px; }
.skip:focus { left: 1rem; top: 1rem; background: var(--paper); padding: .5rem; }
.lead { font-size: 1.1rem; color: var(--quiet); }
.quiet { color: var(--quiet); }
.keep { white-space: nowrap; }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.1rem; list-style: none; padding: 0; margin: 1.2rem 0 0; }
nav a { display: inline-block; padding: .25rem 0; }
.mark { border: 1px solid currentColor; border-radius: .3rem; padding: 0 .4rem; font-size: .82em;
  white-space: nowrap; letter-spacing: .02em; }
.pass { color: var(--pass); } .fail { color: var(--fail); } .open { color: var(--open); } .note { color: var(--quiet); }
.glance { display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: .75rem; padding: 0;
  margin: 1.2rem 0 0; list-style: none; }
.glance li { background: var(--raised); border: 1px solid var(--line); border-radius: .5rem; padding: .7rem .9rem; }
.glance .name { display: flex; justify-content: space-between; align-items: baseline; gap: .5rem; font-weight: 600; }
.glance p { font-size: .92rem; color: var(--quiet); margin: .25rem 0 0; overflow-wrap: anywhere; }
.scroll, pre { overflow-x: auto; }
.scroll { margin: .8rem 0 1.2rem; border: 1px solid var(--line); border-radius: .5rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
caption { text-align: left; padding: .55rem .75rem; color: var(--quiet); border-bottom: 1px solid var(--line); }
th, td { text-align: left; vertical-align: top; padding: .4rem .75rem; border-bottom: 1px solid var(--line); }
tbody tr:last-child > * { border-bottom: 0; }
thead th { background: var(--raised); white-space: nowrap; }
tbody th { font-weight: 600; overflow-wrap: anywhere; min-width: 9rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .86rem; }
code { overflow-wrap: anywhere; }
td code { display: inline-block; min-width: 12rem; }
pre { background: var(--raised); border: 1px solid var(--line); border-radius: .5rem; padding: .75rem .9rem;
  margin: .6rem 0 1rem; line-height: 1.45; }
pre code { overflow-wrap: normal; }
.diff { padding: .5rem 0; }
.diff code { display: inline-block; min-width: 100%; }
.diff span { display: block; padding: 0 .9rem; white-space: pre; }
.diff .add { background: var(--add); } .diff .remove { background: var(--remove); }
.diff .hunk { background: var(--hunk); color: var(--quiet); } .diff .file { font-weight: 700; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: .5rem 0; font-size: .95rem; }
dt { color: var(--quiet); } dd { margin: 0; overflow-wrap: anywhere; }
details { margin: .6rem 0; } summary { cursor: pointer; padding: .2rem 0; }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; display: block; max-width: 60rem; }
svg text { font-size: 11px; fill: var(--ink); font-family: inherit; } svg .quiet { fill: var(--quiet); }
svg .grid { stroke: var(--line); stroke-width: 1; } svg .axis { stroke: var(--quiet); stroke-width: 1; }
svg .first { stroke: var(--first); } svg .second { stroke: var(--second); }
svg polyline { fill: none; stroke-width: 2; } svg .second-line { stroke-dasharray: 5 3; }
svg circle.first { fill: var(--first); } svg circle.second { fill: var(--second); }
svg text.first { fill: var(--first); stroke: none; } svg text.second { fill: var(--second); stroke: none; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem; }
footer { margin-top: 3rem; padding-bottom: 3rem; color: var(--quiet); font-size: .9rem; }
@media (max-width: 32rem) {
  header, main, footer { padding-left: .9rem; padding-right: .9rem; }
  h1 { font-size: 1.5rem; } dl { gap: .15rem .7rem; font-size: .9rem; }
  table, caption, tbody, tr, tbody th, td { display: block; }
  thead { position: absolute; left: -9999px; }
  tbody tr { padding: .45rem .75rem; border-bottom: 1px solid var(--line); } tbody tr:last-child { border-bottom: 0; }
  tbody th, td { border: 0; padding: .1rem 0; overflow-wrap: anywhere; }
  td:empty { display: none; }
  td::before { content: attr(data-label) ": "; color: var(--quiet); }
  td code { min-width: 0; display: inline; }
  .figures tr { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1rem; }
  .figures th:not(.number) { grid-column: 1 / -1; } .figures th.number::before { content: attr(data-label) ": "; }
  .number { text-align: left; white-space: normal; }
}
@media print {
  :root { --ink: #000; --quiet: #444; --paper: #fff; --raised: #fff; --line: #999; --link: #000; --pass: #000;
    --fail: #000; --open: #000; --add: #fff; --remove: #fff; --hunk: #fff; --first: #000; --second: #000; }
  body { font-size: 10pt; } nav, .skip { display: none; } h2, h3, h4 { break-after: avoid; }
  .scroll, pre { overflow: visible; } table { font-size: 8pt; } th, td { padding: .15rem .3rem; }
  .diff span, pre code { white-space: pre-wrap; overflow-wrap: anywhere; } td code { min-width: 0; }
  tr, .glance li, figure { break-inside: avoid; } thead { display: table-header-group; }
  .number { white-space: normal; }
}
"""
