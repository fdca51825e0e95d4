"""The style of the page of `report`: on wide screens, phones and paper; light and dark."""

from __future__ import annotations

STYLE = """
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
main, header, footer, nav { max-width: 78rem; margin: 0 auto; padding: 0 1.5rem; }
header { padding-top: 1.6rem; } footer { padding-top: 1rem; padding-bottom: 2.5rem; color: var(--soft); }
h1 { font-size: 1.05rem; font-weight: 600; margin: 0 0 .9rem; color: var(--soft); }
h1 b { color: var(--ink); }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.6rem 0 .3rem; padding-top: 1.1rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 0; display: inline; }
p { margin: .3rem 0 .7rem; max-width: 62rem; } .soft, p.lead { color: var(--soft); }
a { color: var(--accent); text-decoration: none; } a:hover { text-decoration: underline; }
code, pre { font-family: ui-monospace, "SFMono-Regular", "DejaVu Sans Mono", Menlo, monospace;
  font-size: .87em; }
pre { margin: .4rem 0; padding: .5rem .7rem; background: var(--well); border: 1px solid var(--line);
  border-radius: 6px; white-space: pre-wrap; user-select: all; }

.verdict { border: 1px solid var(--line); border-left: .45rem solid var(--tone); border-radius: 8px;
  padding: 1rem 1.2rem; background: var(--well); }
.verdict .state { color: var(--tone); font-weight: 700; text-transform: uppercase; font-size: .8rem;
  letter-spacing: .06em; margin: 0; }
.verdict .say { font-size: 1.3rem; line-height: 1.35; font-weight: 600; margin: .15rem 0 .5rem; }
.verdict p:last-child, .verdict pre:last-child { margin-bottom: 0; }
.verdict pre { background: var(--paper); }
.loss { --tone: var(--loss); } .no_start { --tone: var(--no-start); } .degraded { --tone: var(--degraded); }
.note { --tone: var(--note); } .good { --tone: var(--good); } .unread { --tone: var(--degraded); }
.pill { color: var(--tone); border: 1px solid var(--tone); border-radius: 99px; padding: 0 .55em;
  font-size: .78rem; font-weight: 600; white-space: nowrap; }

dl.who { display: grid; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); gap: .5rem 1.5rem;
  margin: 1.1rem 0 0; }
dl.who dt { color: var(--soft); font-size: .8rem; } dl.who dd { margin: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .6rem;
  margin: 1.2rem 0 0; }
.tile { background: var(--well); border: 1px solid var(--line); border-radius: 8px; padding: .55rem .8rem; }
.tile.loss b, .tile.no_start b, .tile.degraded b { color: var(--tone); }
.tile b { display: block; font-size: 1.25rem; line-height: 1.3; } .tile span { color: var(--soft);
  font-size: .82rem; line-height: 1.3; display: block; }
nav { margin-top: 1.3rem; font-size: .9rem; } nav a { margin-right: 1.1rem; white-space: nowrap; }

.scroll { overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; min-width: 100%; overflow-wrap: normal; }
th, td { text-align: left; padding: .28rem .8rem .28rem 0; vertical-align: top; }
th { color: var(--soft); font-weight: 400; font-size: .82rem; border-bottom: 1px solid var(--line);
  white-space: nowrap; vertical-align: bottom; }
td { border-bottom: 1px solid color-mix(in srgb, var(--line) 45%, transparent); }
.n { text-align: right; white-space: nowrap; } td.n, th.n { padding-right: 1.2rem; }
td.one, th.one { white-space: nowrap; } td.text { min-width: 14rem; overflow-wrap: anywhere; }
td.name { min-width: 9rem; overflow-wrap: anywhere; }
td.bar { width: 22%; min-width: 6rem; vertical-align: middle; }
td.bar svg { display: block; width: 100%; height: 10px; }

.card { border: 1px solid var(--line); border-left: .3rem solid var(--tone); border-radius: 8px;
  padding: .8rem 1rem; margin: .8rem 0; break-inside: avoid-page; }
.card p { margin: .3rem 0; } .card h3 + .pill { margin-left: .5rem; }
.card svg { display: block; width: 100%; height: 30px; margin: .5rem 0 .1rem; }
.ends { display: flex; justify-content: space-between; color: var(--soft); font-size: .8rem; gap: 1rem; }
details summary { cursor: pointer; color: var(--accent); margin-top: .4rem; }

.row { display: grid; grid-template: "who map n" auto ". says says" auto / 15rem 1fr 4.5rem; gap: 0 .9rem;
  align-items: center; margin: .3rem 0; }
.row .who { grid-area: who; line-height: 1.25; font-size: .92rem; } .row .map { grid-area: map; }
.row .n { grid-area: n; font-size: .85rem; color: var(--soft); }
.row .says { grid-area: says; color: var(--soft); font-size: .82rem; line-height: 1.35; }
.row svg { display: block; width: 100%; height: 20px; }
.axis { position: relative; height: 1.35rem; color: var(--soft); font-size: .78rem; }
.axis span { position: absolute; white-space: nowrap; transform: translateX(-50%); }
.axis span.first { transform: none; } .axis span.last { transform: translateX(-100%); }
.chart { margin: .7rem 0 0; } .chart .most { color: var(--soft); font-size: .78rem; }
 .chart svg { display: block; width: 100%; height: 150px;
  border-bottom: 1px solid var(--line); }
.legend { font-size: .82rem; color: var(--soft); } .legend span { margin-right: 1.1rem; white-space: nowrap; }
.legend svg { vertical-align: -1px; margin-right: .35rem; }

.ground { fill: var(--cold); } .kept { fill: var(--kept); } .open { fill: var(--open); }
.going { fill: url(#hatch); stroke: var(--note); stroke-width: .6; vector-effect: non-scaling-stroke; }
.hurt, .f-loss { fill: var(--loss); } .f-no_start { fill: var(--no-start); }
.f-degraded { fill: var(--degraded); } .cut { fill: var(--paper); } .tick { fill: var(--soft); }
.value { fill: var(--bar); } .saved { fill: var(--good); } .grid { fill: var(--line); }
.moment { fill: var(--loss); }
.c-none { fill: var(--note); } .c-gzip { fill: #8250df; } .c-snappy { fill: #bf8700; }
.c-lz4 { fill: #1b7c83; } .c-zstd { fill: #0969da; } .c-unknown { fill: var(--loss); }

@media (max-width: 40rem) {
  body { font-size: 14px; } main, header, footer, nav { padding-left: .9rem; padding-right: .9rem; }
  .verdict { padding: .8rem .9rem; } .verdict .say { font-size: 1.1rem; }
  dl.who { grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); }
  .tiles { grid-template-columns: 1fr 1fr; }
  .wide { display: none; }
  .stacks thead { display: none; } .stacks tr { display: block; padding: .45rem 0;
    border-bottom: 1px solid var(--line); }
  .stacks td { display: block; border: 0; padding: .05rem 0; text-align: left; min-width: 0;
    overflow-wrap: anywhere; white-space: normal; }
  .stacks td:empty { display: none; }
  .stacks td:not(.name:first-child)::before { content: attr(data-title) ": "; color: var(--soft); }
  .row { grid-template: "who n" auto "map map" auto "says says" auto / 1fr max-content; margin: .5rem 0; }
  .row .map { margin-top: .15rem; } .axis span:nth-child(even) { display: none; }
}
@media print {
  :root { color-scheme: light; --ink: #000; --soft: #444; --paper: #fff; --well: #fff; --line: #bbb; }
  body { font-size: 10pt; } nav { display: none; } h2 { break-after: avoid; }
  .scroll { overflow: visible; } table { font-size: 8.5pt; overflow-wrap: anywhere; }
  td.text, td.name, td.one { min-width: 0; white-space: normal; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
