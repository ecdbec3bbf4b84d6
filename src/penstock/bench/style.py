"""The report's style sheet, and the script that shows values when the pointer is over a chart. The page holds both
as they stand here (`html.py`)."""

STYLE = """
:root{color-scheme:light dark;--page:#f4f6f9;--card:#fff;--ink:#131a24;--soft:#5b6777;--faint:#e5e9ef;
--edge:#dfe4eb;
--p50:#2563eb;--p95:#7c3aed;--p99:#db2777;--ok:#0d9488;--rejected:#d97706;--failed:#dc2626;--offered:#475569;
--warn:#fff7e6;--shadow:0 1px 2px #1018280d,0 4px 16px #1018280a}
@media(prefers-color-scheme:dark){:root{--page:#0c1118;--card:#141b25;--ink:#e8edf4;--soft:#93a1b3;
--faint:#212b38;
--edge:#232e3c;--p50:#60a5fa;--p95:#a78bfa;--p99:#f472b6;--ok:#2dd4bf;--rejected:#fbbf24;--failed:#f87171;
--offered:#cbd5e1;--warn:#2d2410;--shadow:none}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1160px;margin:0 auto;padding:36px 24px 48px}
header{display:flex;justify-content:space-between;align-items:flex-start;gap:24px;margin-bottom:22px}
.brand{margin:0 0 2px;color:var(--soft);font-size:13px;letter-spacing:.04em}.brand b{color:var(--p50)}
h1{margin:0;font-size:26px;line-height:1.25;letter-spacing:-.015em;overflow-wrap:anywhere}
.sub,time{color:var(--soft);font-size:14px;margin:5px 0 0}time{white-space:nowrap;margin:2px 0 0;
font-size:13px}
.warning{background:var(--warn);border:1px solid var(--rejected);border-radius:10px;padding:10px 16px;
margin:0 0 18px}
.tiles{display:grid;grid-template-columns:repeat(4,1fr);gap:14px;margin-bottom:16px}
.tile,.card{background:var(--card);border:1px solid var(--edge);border-radius:12px;box-shadow:var(--shadow)}
.tile{padding:14px 18px 13px;display:flex;flex-direction:column}
.tile span{color:var(--soft);font-size:13px}.tile small{color:var(--soft);font-size:12.5px}
.tile strong{font-size:27px;line-height:1.3;font-weight:650;letter-spacing:-.02em}
.tile i{font-style:normal;font-size:15px;font-weight:500;color:var(--soft);margin-left:3px;letter-spacing:0}
.tile.warn strong{color:var(--rejected)}.tile.bad strong{color:var(--failed)}
.card{padding:16px 18px 12px;margin-bottom:16px;min-width:0}
.pair{display:grid;grid-template-columns:1fr 1fr;gap:0 16px;align-items:start}
h2{display:flex;flex-wrap:wrap;align-items:baseline;gap:2px 14px;margin:0 0 8px;font-size:15.5px;font-weight:620}
h2 small{color:var(--soft);font-size:12.5px;font-weight:400;margin-right:auto}
.keys{display:inline-flex;gap:2px 14px;flex-wrap:wrap}
.key{font-size:12.5px;font-weight:450;color:var(--soft);display:inline-flex;align-items:center;gap:6px}
.key::before{content:"";width:14px;height:3px;border-radius:2px;background:var(--k)}
.k-p50{--k:var(--p50)}.k-p95{--k:var(--p95)}.k-p99{--k:var(--p99)}.k-ok{--k:var(--ok)}
.k-rejected{--k:var(--rejected)}.k-failed{--k:var(--failed)}.k-offered{--k:var(--offered)}
.chart{position:relative}svg{display:block;width:100%;height:auto;overflow:visible}
.grid{stroke:var(--faint)}.axis{stroke:var(--edge)}.tick,.label,.note{font-size:11.5px;fill:var(--soft)}
.line{fill:none;stroke:var(--k);stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.line.k-offered{stroke-width:1.5;stroke-dasharray:5 4}
.area{fill:var(--k);opacity:.13}.area.k-rejected,.area.k-failed{opacity:.4}
.bar{fill:var(--k);opacity:.85}.rule{stroke:var(--k);stroke-dasharray:4 3;stroke-width:1.3}
.note{fill:var(--k);font-weight:600;paint-order:stroke;stroke:var(--card);stroke-width:4px}
.cursor{stroke:var(--soft);stroke-width:1;visibility:hidden}
.tip{position:absolute;top:6px;pointer-events:none;background:var(--card);border:1px solid var(--edge);
border-radius:8px;
padding:7px 11px;font-size:12.5px;box-shadow:0 4px 14px #0003;white-space:nowrap;display:none;z-index:1}
.tip b{display:block;margin-bottom:2px}.tip div{display:flex;gap:16px;justify-content:space-between}
.tip span{color:var(--soft)}.tip span::before{content:"";display:inline-block;width:8px;height:8px;
border-radius:50%;
background:var(--k);margin-right:6px}
table{width:100%;border-collapse:collapse;font-size:14px;margin-bottom:4px}
th{color:var(--soft);font-weight:450;font-size:12.5px}th,td{text-align:right;padding:6px 0 6px 14px}
td:first-child{text-align:left;padding-left:0}tbody tr{border-top:1px solid var(--faint)}
thead+tbody td:first-child{color:var(--soft)}
.meter{width:38%}.meter span{display:block;height:7px;border-radius:4px;background:var(--k);min-width:2px}
.none{color:var(--soft);margin:2px 0 6px}footer{color:var(--soft);font-size:12.5px;margin-top:8px}
.narrow{display:none}
@media(max-width:820px){.tiles{grid-template-columns:1fr 1fr}.pair{grid-template-columns:1fr}
time{display:none}.full .tick,.full .label,.full .note{font-size:18px}}
@media(max-width:600px){.full,.half{display:none}.narrow{display:block}main{padding:22px 14px 32px}
.tiles{gap:10px}.tile{padding:11px 13px 10px}.tile strong{font-size:23px}.card{padding:14px 13px 10px}
th,td{padding-left:8px}.meter{width:28%}}
@media print{body{background:#fff}.card,.tile{break-inside:avoid;box-shadow:none}}
"""

SCRIPT = """
for (const chart of document.querySelectorAll('.chart')) {
  const svg = chart.querySelector('svg'), cursor = chart.querySelector('.cursor');
  const readings = JSON.parse(chart.querySelector('script').textContent);
  if (!readings.length) continue;
  const tip = chart.appendChild(document.createElement('div'));
  tip.className = 'tip';
  const make = (parent, tag, text, kind) => {
    const made = parent.appendChild(document.createElement(tag));
    if (text) made.textContent = text;
    if (kind) made.className = 'k-' + kind;
    return made;
  };
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale;
    const near = readings.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);
    cursor.setAttribute('x1', near[0]);
    cursor.setAttribute('x2', near[0]);
    cursor.style.visibility = 'visible';
    tip.replaceChildren();
    make(tip, 'b', near[1]);
    for (const [name, value, kind] of near[2]) {
      const row = make(tip, 'div');
      make(row, 'span', name, kind);
      make(row, 'em', value).style.fontStyle = 'normal';
    }
    tip.style.display = 'block';
    const at = near[0] / scale, right = at + 14 + tip.offsetWidth > box.width;
    tip.style.left = (right ? at - 14 - tip.offsetWidth : at + 14) + 'px';
  });
  svg.addEventListener('pointerleave', () => {
    tip.style.display = 'none';
    cursor.style.visibility = 'hidden';
  });
}
"""
