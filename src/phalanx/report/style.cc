#include "phalanx/report/style.h"

namespace phalanx {

// Colours are the variables of drawing/palette.h. On paper curves also differ by their dashes.
const std::string_view kReportStyle = R"css(
*{box-sizing:border-box}
body{margin:0 auto;max-width:1240px;padding:24px 20px 60px;background:var(--ground);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;
font-variant-numeric:tabular-nums}
h1{font-size:26px;line-height:1.2;margin:0 0 4px;font-weight:650;overflow-wrap:anywhere}
h2{font-size:18px;font-weight:650;margin:38px 0 12px;padding-bottom:5px;border-bottom:1px solid var(--rule)}
h3{font-size:15px;font-weight:650;margin:22px 0 8px}
p{margin:6px 0;max-width:75ch}
.sub,.missing,.unit,footer,.note{color:var(--soft)}
.sub{overflow-wrap:anywhere}
.missing{font-style:italic}
.state{font-weight:600}.bad{color:var(--bad)}.good{color:var(--good)}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(138px,1fr));margin:22px 0 8px;
border:1px solid var(--rule);border-radius:8px;overflow:hidden}
.tiles div{box-shadow:1px 1px 0 0 var(--rule);padding:10px 14px}
.tiles b{display:block;font-size:20px;font-weight:620;line-height:1.25;white-space:nowrap}
.tiles span{color:var(--soft);font-size:13px}
figure{margin:0;min-width:0;position:relative}
figcaption{font-weight:620;margin-bottom:2px}
.unit{font-weight:400;font-size:13px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,350px),1fr));gap:26px 30px;margin-top:22px}
.loss{margin-top:20px}
.loss label{color:var(--soft);font-size:13px;cursor:pointer;padding-left:4px}
.switch{accent-color:var(--c0);margin:0;vertical-align:-2px}
.switch:checked~.linear,.switch:not(:checked)~.log,.narrow{display:none}
@media (max-width:640px){.wide{display:none}.narrow{display:block}body{padding:18px 14px 40px}
.events,.events tbody{display:block}.events thead{display:none}
.events tr{display:grid;grid-template-columns:1fr auto auto;gap:0 14px;padding:5px 0;border-bottom:1px solid var(--grid)}
.events td{padding:0;border:0}.events td:nth-child(2){font-weight:600}.events td:last-child{grid-column:1/-1;min-width:0;color:var(--soft)}}
.chart{display:block;width:100%;height:auto;overflow:visible;touch-action:pan-y}
.chart text{font-size:11.5px;fill:var(--soft)}
.chart .end{font-weight:600}
@media (min-width:1100px){.wide .chart text{font-size:10px}}
.chart .y,.chart .end{dominant-baseline:central}
.chart .tick{text-anchor:middle}.chart .y,.chart .name{text-anchor:end}.chart .mark-name{text-anchor:start}
.chart .grid{stroke:var(--grid)}
.chart .base{stroke:var(--soft)}
.chart .mark{stroke:var(--soft);stroke-dasharray:2 3}
.curve{fill:none;stroke-width:1.7;stroke-linejoin:round}
.curve.faint{stroke-width:.8;opacity:.38}
.c0{stroke:var(--c0)}.c1{stroke:var(--c1)}.c2{stroke:var(--c2)}.c3{stroke:var(--c3)}
.c4{stroke:var(--c4)}.c5{stroke:var(--c5)}.c6{stroke:var(--c6)}.c7{stroke:var(--c7)}
.chart text.end{stroke:none}
.end.c0,.dot.c0{fill:var(--c0)}.end.c1,.dot.c1{fill:var(--c1)}.end.c2,.dot.c2{fill:var(--c2)}
.end.c3,.dot.c3{fill:var(--c3)}.end.c4,.dot.c4{fill:var(--c4)}.end.c5,.dot.c5{fill:var(--c5)}
.end.c6,.dot.c6{fill:var(--c6)}.end.c7,.dot.c7{fill:var(--c7)}
.dot{stroke:none}
.b0{fill:var(--b0)}.b1{fill:var(--b1)}.b2{fill:var(--b2)}.b3{fill:var(--b3)}.b4{fill:var(--b4)}
.b5{fill:var(--b5)}.b6{fill:var(--b6)}.b7{fill:var(--b7)}.b8{fill:var(--b8)}.b9{fill:var(--b9)}
.bars{display:grid;grid-template-columns:max-content 1fr max-content;gap:6px 12px;align-items:center}
.bars span{white-space:nowrap}.bars span:nth-child(3n){text-align:right;color:var(--soft)}
.bar{display:block;width:100%;height:18px;background:var(--raised);border-radius:2px}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:2px 18px;padding:0;margin:10px 0;font-size:13px;color:var(--soft)}
.swatch{width:12px;height:12px;margin-right:2px;vertical-align:-1px}
.scroll{overflow-x:auto;margin:8px 0}
table{border-collapse:collapse;font-size:14px}
th{font-weight:600;text-align:left;color:var(--soft);font-size:13px;vertical-align:bottom}
th,td{padding:4px 18px 4px 0;border-bottom:1px solid var(--grid);vertical-align:top}
th.n,td.n{text-align:right}
td.n{white-space:nowrap}
.events td:nth-child(-n+3){white-space:nowrap}
.events td:last-child,.differences td{overflow-wrap:anywhere;min-width:16ch}
.events td:last-child{white-space:pre-line}
.events .n{min-width:0}
dl{display:grid;grid-template-columns:minmax(110px,max-content) 1fr;gap:3px 18px;margin:8px 0}
dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
.columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,360px),1fr));gap:0 40px}
.arguments{columns:330px;column-gap:36px;font-size:13px}
.arguments div{display:flex;gap:14px;justify-content:space-between;break-inside:avoid;border-bottom:1px solid var(--grid);padding:2px 0}
.arguments span:last-child{text-align:right;overflow-wrap:anywhere;min-width:0}
.arguments span:first-child{white-space:nowrap;color:var(--soft)}
details summary{cursor:pointer;font-weight:620;margin:14px 0 8px}
.timeline{overflow-x:auto;margin:10px 0}
.timeline svg{display:block}
.hover{position:absolute;pointer-events:none;background:var(--raised);border:1px solid var(--rule);border-radius:4px;
padding:2px 8px;font-size:12.5px;white-space:nowrap;z-index:1}
footer{margin-top:48px;border-top:1px solid var(--rule);padding-top:8px;font-size:13px}
@media print{
@page{margin:14mm}
body{max-width:none;padding:0;font-size:10.5pt}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
figure,.bars,tr,.tiles{break-inside:avoid}
h2,h3,summary{break-after:avoid}
.charts{grid-template-columns:1fr 1fr;gap:14px 20px}
.wide{display:block}.narrow,.switch,.loss label{display:none}
.scroll,.timeline{overflow:visible}.timeline svg{max-width:100%;height:auto}
table{font-size:9pt}th,td{padding:2px 10px 2px 0}
.arguments{columns:2;font-size:8.5pt}
.c1.curve{stroke-dasharray:6 2}.c2.curve{stroke-dasharray:2 2}.c3.curve{stroke-dasharray:8 2 2 2}
.c4.curve{stroke-dasharray:10 3}.c5.curve{stroke-dasharray:4 1}.c6.curve{stroke-dasharray:1 2}.c7.curve{stroke-dasharray:12 3 3 3}
.curve.faint{stroke-dasharray:none}
}
)css";

const std::string_view kReportScript = R"js(
document.querySelectorAll('svg.chart').forEach(chart=>{
const d=chart.dataset,[x0,x1]=d.x.split(' ').map(Number),[y0,y1]=d.y.split(' ').map(Number);
const [left,top,right,bottom]=d.box.split(' ').map(Number),figure=chart.closest('figure');
const curves=[...chart.querySelectorAll('polyline:not(.faint)')].map(c=>({name:c.dataset.name,
points:c.getAttribute('points').trim().split(' ').map(p=>p.split(',').map(Number))}));
const factor=Number(d.factor),short=v=>Math.abs(v)>=1e4?v.toLocaleString('en',{notation:'compact',maximumSignificantDigits:4})
:String(Number(v.toPrecision(4)));
const value=y=>{const s=(bottom-y)/(bottom-top);return factor*(d.log==='1'?y0*Math.pow(y1/y0,s):y0+s*(y1-y0))};
let box=null;
chart.addEventListener('pointermove',event=>{
const matrix=chart.getScreenCTM();if(!matrix)return;
const at=new DOMPoint(event.clientX,event.clientY).matrixTransform(matrix.inverse());
if(at.x<left-4||at.x>right+4){if(box)box.remove();box=null;return}
if(!box){box=document.createElement('div');box.className='hover';figure.appendChild(box)}
const near=p=>p.reduce((a,b)=>Math.abs(b[0]-at.x)<Math.abs(a[0]-at.x)?b:a);
const x=curves.length?near(curves[0].points)[0]:at.x;
box.textContent=d.xName+' '+Math.round(x0+(x-left)/(right-left)*(x1-x0)).toLocaleString('en')+curves.map(c=>
': '+(curves.length>1?c.name.replace(/ [0-9.e-]+$/,'')+' ':'')+short(value(near(c.points)[1]))).join('').replace(/^: /,' · ').replace(/: /g,' · ');
const r=figure.getBoundingClientRect(),w=box.offsetWidth;
box.style.left=Math.max(0,Math.min(r.width-w,event.clientX-r.left+12))+'px';
box.style.top=(event.clientY-r.top-34)+'px';
});
chart.addEventListener('pointerleave',()=>{if(box)box.remove();box=null});
});
)js";

}  // namespace phalanx
