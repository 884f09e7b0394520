#include "study/report/page_parts.h"

namespace shardlm::report {

// Colours are Okabe and Ito's, darkened or lightened for contrast with the paper of each theme; no
// meaning hangs on colour alone (shapes, dashes, words). Light is the default, also in print.
std::string_view page_style() {
  return R"css(
:root{color-scheme:light;--paper:#fbfaf7;--card:#fff;--ink:#1c2127;--muted:#59636e;--line:#d9dce0;--grid:#e7e9ec;--accent:#0b5fa5;
--s0:#0072b2;--s1:#d55e00;--s2:#00855f;--s3:#a8478a;--s4:#a87c00;--s5:#3d97d3;--s6:#7c5230;--s7:#4d555e;--s8:#7d8791;--s9:#a9843f;--s10:#7f63b8;--s11:#b3204d;
--compute:#3f6fa8;--wait:#e3aa31;--transfer:#c24a2c;--other:#aab1ba;--on-compute:#fff;--on-wait:#1c2127;--on-transfer:#fff;--on-other:#1c2127;
--good:#00704f;--warn:#8a5a00;--bad:#b3261e;--good-b:#e0f3ec;--warn-b:#fbeed2;--bad-b:#fbe1de;--plain-b:#eceef1;--tied:#fff}
:root[data-theme=dark]{color-scheme:dark;--paper:#13161a;--card:#1b2026;--ink:#e7e9ec;--muted:#a0abb6;--line:#343c45;--grid:#2a3139;--accent:#7cc0f7;
--s0:#56b4e9;--s1:#f2904a;--s2:#35c79d;--s3:#e293c8;--s4:#ecd14f;--s5:#93b4ff;--s6:#cfa47c;--s7:#bcc4cd;--s8:#8a95a0;--s9:#c9a866;--s10:#b9a3ea;--s11:#ff86a6;
--compute:#6d9fdb;--wait:#f0c25c;--transfer:#e77f5c;--other:#7b8691;--on-compute:#10151a;--on-wait:#10151a;--on-transfer:#10151a;--on-other:#10151a;
--good:#58d3a8;--warn:#f0c25c;--bad:#ff9c8f;--good-b:#12342a;--warn-b:#3a2e12;--bad-b:#43211d;--plain-b:#2a3139;--tied:#13161a}
@media (prefers-color-scheme:dark){:root:not([data-theme=light]){color-scheme:dark;--paper:#13161a;--card:#1b2026;--ink:#e7e9ec;--muted:#a0abb6;--line:#343c45;--grid:#2a3139;--accent:#7cc0f7;
--s0:#56b4e9;--s1:#f2904a;--s2:#35c79d;--s3:#e293c8;--s4:#ecd14f;--s5:#93b4ff;--s6:#cfa47c;--s7:#bcc4cd;--s8:#8a95a0;--s9:#c9a866;--s10:#b9a3ea;--s11:#ff86a6;
--compute:#6d9fdb;--wait:#f0c25c;--transfer:#e77f5c;--other:#7b8691;--on-compute:#10151a;--on-wait:#10151a;--on-transfer:#10151a;--on-other:#10151a;
--good:#58d3a8;--warn:#f0c25c;--bad:#ff9c8f;--good-b:#12342a;--warn-b:#3a2e12;--bad-b:#43211d;--plain-b:#2a3139;--tied:#13161a}}
*{box-sizing:border-box}
html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"Liberation Sans",sans-serif;overflow-wrap:break-word}
main,header.top,footer{max-width:1040px;margin:0 auto;padding:0 20px}
h1,h2,.headline{font-family:Charter,"Bitstream Charter","Iowan Old Style","Source Serif 4",Georgia,"Liberation Serif",serif;font-weight:700;line-height:1.15;letter-spacing:-.01em;text-wrap:balance}
h1{font-size:clamp(1.7rem,5vw,2.6rem);margin:.1em 0 .2em;overflow-wrap:anywhere}
h2{font-size:clamp(1.3rem,3.4vw,1.7rem);margin:0 0 .8rem}
h2 .no{color:var(--muted);font-weight:400;margin-right:.45em;font-variant-numeric:tabular-nums}
h3{font-size:1.06rem;margin:0 0 .25rem;line-height:1.3}
a{color:var(--accent)}
header.top{padding-top:28px;position:relative}
.kicker{margin:0;color:var(--muted);font-size:.8rem;letter-spacing:.09em;text-transform:uppercase}
.meta{margin:.2rem 0 0;color:var(--muted);font-size:.9rem;overflow-wrap:anywhere}
#theme{position:absolute;top:24px;right:20px}
button{font:inherit;font-size:.85rem;color:var(--ink);background:var(--card);border:1px solid var(--line);border-radius:999px;padding:.25em .9em;cursor:pointer}
button:hover{border-color:var(--muted)}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
nav{max-width:1040px;margin:18px auto 0;padding:0 20px}
nav ol{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1rem;margin:0;padding:.6rem 0;border-block:1px solid var(--line);font-size:.86rem}
nav a{text-decoration:none;color:var(--muted)}
nav a:hover{color:var(--accent);text-decoration:underline}
section{margin:46px 0;scroll-margin-top:12px}
.lead{color:var(--muted);margin:-.5rem 0 1.2rem;max-width:68ch}
.answer{background:var(--card);border:1px solid var(--line);border-top:4px solid var(--s0);border-radius:3px 3px 10px 10px;padding:22px clamp(16px,3vw,30px) 18px;margin-top:26px}
.headline{font-size:clamp(1.5rem,4.6vw,2.3rem);margin:0 0 .15em}
.sub{margin:0 0 1rem;color:var(--muted)}
.why{max-width:72ch;margin:.55rem 0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:1px;background:var(--line);border:1px solid var(--line);border-radius:8px;overflow:hidden;margin:0 0 1rem}
.tile{background:var(--card);padding:10px 14px 9px;min-width:0}
.tile b{display:block;font-size:1.55rem;line-height:1.2;font-variant-numeric:tabular-nums;letter-spacing:-.01em}
.tile span{display:block;font-size:.86rem}
.tile small{display:block;color:var(--muted);font-size:.78rem;font-variant-numeric:tabular-nums}
ul.also{list-style:none;margin:.9rem 0 0;padding:0;display:grid;gap:.4rem;max-width:80ch}ul.also li{display:grid;grid-template-columns:8.6em 1fr;gap:.7em}
ul.warnings{list-style:none;margin:1rem 0 0;padding:.8rem 0 0;border-top:1px solid var(--line);font-size:.9rem;display:grid;gap:.35rem}
ul.warnings li{display:grid;grid-template-columns:8.6em 1fr;gap:.7em;align-items:start}
ul.warnings .badge{justify-self:start}
.badge{display:inline-block;font-size:.76rem;font-weight:600;line-height:1.5;border-radius:4px;padding:.08em .55em;white-space:nowrap;background:var(--plain-b);color:var(--muted)}
.badge.good{background:var(--good-b);color:var(--good)}.badge.warn{background:var(--warn-b);color:var(--warn)}.badge.bad{background:var(--bad-b);color:var(--bad)}
figure{margin:0 0 34px;padding:0}
figure+figure{padding-top:26px;border-top:1px solid var(--line)}
.reading{margin:0 0 .9rem;max-width:72ch}
.panels{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:18px 34px;align-items:start}
.panel{min-width:0;max-width:480px}
.panel-title{margin:0 0 .3rem;font-weight:600;font-size:.9rem}
figcaption,.note{color:var(--muted);font-size:.85rem;max-width:80ch;margin:.7rem 0 0}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.1rem .95rem;margin:0 0 .35rem;padding:0;font-size:.82rem;color:var(--ink)}
.legend li{display:flex;align-items:center;gap:.4em;min-width:0;overflow-wrap:anywhere}
.key{width:26px;height:14px;flex:none}.key.box{width:12px;height:12px}
.beside{min-width:0}.beside>figcaption:first-child{margin-top:0}
svg.chart{display:block;width:100%;height:auto;overflow:visible;font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"Liberation Sans",sans-serif;font-variant-numeric:tabular-nums}
svg text{fill:var(--ink);font-size:12px}
svg text.title{font-size:12px;fill:var(--muted)}
svg text.tick{font-size:11.5px;fill:var(--muted)}
svg text.note{font-size:11.5px;fill:var(--muted);paint-order:stroke;stroke:var(--paper);stroke-width:3px}
svg text.inbar{font-size:10.5px}
text.inbar.compute{fill:var(--on-compute)}text.inbar.wait{fill:var(--on-wait)}text.inbar.transfer{fill:var(--on-transfer)}text.inbar.other{fill:var(--on-other)}
.grid{stroke:var(--grid);stroke-width:1}.grid.minor{stroke-width:.5}.axis{stroke:var(--muted);stroke-width:1}
.rule{stroke:var(--muted);stroke-width:1;stroke-dasharray:2 3}
.s0{--c:var(--s0)}.s1{--c:var(--s1)}.s2{--c:var(--s2)}.s3{--c:var(--s3)}.s4{--c:var(--s4)}.s5{--c:var(--s5)}.s6{--c:var(--s6)}.s7{--c:var(--s7)}.s8{--c:var(--s8)}.s9{--c:var(--s9)}.s10{--c:var(--s10)}.s11{--c:var(--s11)}
.line{fill:none;stroke:var(--c);stroke-width:2;stroke-linejoin:round}.line.dashed{stroke-width:1.5;stroke-dasharray:6 4}
.line.s9.dashed{stroke-dasharray:2 3}
.mark{fill:var(--c);stroke:var(--paper);stroke-width:1}.mark.hollow{fill:var(--paper);stroke:var(--c);stroke-width:1.8}
.whisker{fill:none;stroke:var(--c);stroke-width:1.4}
.bar{stroke:var(--paper);stroke-width:1}.bar.compute{fill:var(--compute)}.bar.wait{fill:var(--wait)}.bar.transfer{fill:var(--transfer)}.bar.other{fill:var(--other)}
.field{fill:var(--c);fill-opacity:.26;stroke:none}.field.tied{fill-opacity:.1;stroke:var(--c);stroke-dasharray:3 3}.field.none{fill:var(--grid);fill-opacity:.5}
details.data{margin:.7rem 0 0;font-size:.9rem}
summary{cursor:pointer;color:var(--accent);width:fit-content}
.scroll{overflow-x:auto;max-width:100%;margin:.5rem 0}
table{border-collapse:collapse;font-size:.83rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--muted);padding:.2rem 0;white-space:nowrap}
th,td{text-align:left;padding:.28em .8em .28em 0;border-bottom:1px solid var(--line);vertical-align:top;max-width:34em}
th[scope=row]{font-weight:500}
thead th{color:var(--muted);font-weight:600;vertical-align:bottom}
td.n,th.n{text-align:right;white-space:nowrap}thead th.n{white-space:normal}
#failures td:last-child{white-space:pre-line;min-width:18em}
tr.doubt{background:color-mix(in srgb,var(--warn-b) 55%,transparent)}
pre{overflow-x:auto;max-width:100%;background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.8em 1em;font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"Liberation Mono",monospace}
dl.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,230px),1fr));gap:0 26px;margin:0 0 1.4rem;font-size:.87rem}
dl.facts>div{border-bottom:1px solid var(--line);padding:.32em 0;min-width:0}
dt{color:var(--muted);font-size:.78rem}dd{margin:0;overflow-wrap:anywhere}
.hosts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,260px),1fr));gap:14px}
.host{border:1px solid var(--line);border-radius:8px;background:var(--card);padding:10px 12px;min-width:0;overflow-wrap:anywhere}
.host ul{list-style:none;display:flex;flex-wrap:wrap;gap:6px;margin:8px 0 0;padding:0}
.host li{border:1px solid var(--line);border-radius:5px;padding:3px 9px;font-size:.8rem}.host li b,.host li span{display:block}.host li span{color:var(--muted)}
.sliders{display:grid;gap:.1rem;margin-bottom:1rem}
.sliders label{display:flex;justify-content:space-between;font-size:.9rem}
output{font-weight:600;font-variant-numeric:tabular-nums}
input[type=range]{width:100%;margin:.2rem 0 .6rem;accent-color:var(--s0)}
.presets{margin:.1rem 0 0;font-size:.85rem;color:var(--muted)}
.absent{color:var(--muted);font-size:.9rem}
footer{border-top:1px solid var(--line);padding-top:14px;padding-bottom:40px;color:var(--muted);font-size:.84rem}
@media (max-width:560px){svg text,svg text.title{font-size:13px}svg text.tick,svg text.note,svg text.label{font-size:12.5px}svg text.inbar,svg text.infield{font-size:11.5px}dl.facts{grid-template-columns:1fr 1fr;gap:0 18px}.reading,.why{font-size:.97rem}main,header.top,footer,nav{padding-left:16px;padding-right:16px}#theme{right:16px}
nav ol{flex-wrap:nowrap;overflow-x:auto;white-space:nowrap}
ul.warnings li,ul.also li{grid-template-columns:1fr;gap:.1rem}section{margin:38px 0}.tiles{grid-template-columns:1fr 1fr}}
@page{margin:14mm}
@media print{#theme,nav,.sliders{display:none}body{font-size:10.5pt}section{margin:20px 0}h2,h3,.reading{break-after:avoid}.panel,.answer,tr,.host{break-inside:avoid}.panels{grid-template-columns:1fr 1fr}a{color:inherit;text-decoration:none}}
)css";
}

}  // namespace shardlm::report
