// Style sheet of a report: light and dark, wide, narrow and printed.
#pragma once

namespace tandem::report {

// Series colours are distinguishable with any colour vision (after Okabe and Ito 2008), lighter on dark
// ground.
inline constexpr const char* kStyle = R"css(
:root{color-scheme:light dark;--ground:#fbfbfa;--card:#fff;--edge:#e4e4e0;--ink:#1d1f21;--soft:#63676b;--grid:#ecece8;
--axis:#a9aca8;--alarm:#c0392b;--shade:#fbe9e4;--hover:rgba(0,0,0,.05);--good:#1a7f4b;--warn:#9a6700;
--c0:#0b6fb8;--c1:#cf5a10;--c2:#0a8a66;--c3:#b0578f;--c4:#b07d00;--c5:#3b93c4;--c6:#5b5f63}
@media (prefers-color-scheme:dark){:root{--ground:#141618;--card:#1b1e21;--edge:#2e3236;--ink:#e6e7e8;--soft:#9ba1a6;
--grid:#2a2e32;--axis:#5c6267;--alarm:#f2786b;--shade:#3a2523;--hover:rgba(255,255,255,.07);--good:#5cc490;
--warn:#dcae4a;--c0:#62b0ee;--c1:#f39a5b;--c2:#4cc7a0;--c3:#df93c2;--c4:#e3bd54;--c5:#8fd0f2;--c6:#b4b9bd}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif;-webkit-text-size-adjust:100%}
main{max-width:1120px;margin:0 auto;padding:36px 24px 48px}
h1{font-size:26px;line-height:1.25;font-weight:600;margin:0;overflow-wrap:anywhere;letter-spacing:-.01em}
h2{font-size:17px;font-weight:600;margin:40px 0 12px}
.lead{color:var(--soft);margin:6px 0 0;overflow-wrap:anywhere}
.badge{display:inline-block;font-size:12.5px;font-weight:500;padding:1px 10px;border-radius:20px;border:1px solid
currentColor;vertical-align:4px;margin-left:8px;color:var(--soft);white-space:nowrap}
.badge.completed{color:var(--good)}.badge.failed,.badge.diverged{color:var(--alarm)}.badge.interrupted,.badge.not-ended{color:var(--warn)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:1px;margin:26px 0 0;padding:0;
background:var(--edge);border:1px solid var(--edge);border-radius:10px;overflow:hidden}
.tiles div{background:var(--card);padding:14px 16px 13px}
.tiles dt{color:var(--soft);font-size:13px}.tiles dd{margin:0;font-size:22px;font-weight:600;line-height:1.35;
font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.tiles small{display:block;color:var(--soft);font-size:12.5px;font-weight:400;line-height:1.4}
.notes{margin:20px 0 0;padding:10px 16px;border-left:3px solid var(--warn);background:var(--card);color:var(--ink)}
.notes p{margin:3px 0;overflow-wrap:anywhere}
.charts{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:18px;margin:18px 0 0}
figure{margin:0;background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:14px 16px 10px;
min-width:0;break-inside:avoid}
.pictures img{width:100%;height:auto;image-rendering:pixelated;border-radius:4px}
figure.wide{grid-column:1/-1;display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1fr);column-gap:34px}
figure.wide figcaption{grid-column:1/-1}figure.wide .note{align-self:center;font-size:14px}
figcaption{display:flex;flex-wrap:wrap;align-items:baseline;gap:0 10px;margin-bottom:6px}
figcaption b{font-weight:600}figcaption span{color:var(--soft);font-size:13px}
.legend{display:flex;flex-wrap:wrap;gap:2px 16px;list-style:none;margin:0;padding:0;font-size:13px;color:var(--soft)}
figcaption .legend{margin-left:auto}
.legend li{display:flex;align-items:center;gap:6px;min-width:0;overflow-wrap:anywhere}
.legend i{flex:none;width:14px;height:4px;border-radius:2px}.legend i.tall{height:12px;width:12px;border-radius:2px}
.runs{position:sticky;top:0;z-index:1;background:var(--ground);padding:10px 0;margin-top:28px;font-size:14px;
border-bottom:1px solid var(--edge);color:var(--ink)}
.note{color:var(--soft);font-size:12.5px;margin:4px 0 4px;white-space:pre-line}
.note p{margin:0 0 8px}
svg.chart{display:block;width:100%;height:auto;overflow:visible}
svg text{font:11.5px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;fill:var(--soft);
font-variant-numeric:tabular-nums}
.grid{stroke:var(--grid)}.axis{stroke:var(--axis)}.alarm{stroke:var(--alarm);stroke-width:1.6}
.shade{fill:var(--shade)}.line{fill:none;stroke-width:1.7;stroke-linejoin:round;stroke-linecap:round}
.faint{opacity:.28;stroke-width:1}.dashed{stroke-dasharray:5 4}
.hover{fill:var(--hover)}.hover:hover{fill-opacity:1}
.s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c3)}.s4{stroke:var(--c4)}
.s5{stroke:var(--c5)}.s6{stroke:var(--c6)}
.f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}.f4{fill:var(--c4)}.f5{fill:var(--c5)}
.f6{fill:var(--c6)}
i.f0{background:var(--c0)}i.f1{background:var(--c1)}i.f2{background:var(--c2)}i.f3{background:var(--c3)}
i.f4{background:var(--c4)}i.f5{background:var(--c5)}i.f6{background:var(--c6)}i.alarm{background:var(--alarm)}
i.dashed{-webkit-mask:repeating-linear-gradient(90deg,#000 0 5px,transparent 5px 8px);
mask:repeating-linear-gradient(90deg,#000 0 5px,transparent 5px 8px)}
i.shade{background:var(--shade);outline:1px solid var(--edge)}
.scroll{overflow-x:auto;background:var(--card);border:1px solid var(--edge);border-radius:10px}
table{border-collapse:collapse;width:100%;font-size:13.5px;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:8px 12px;border-bottom:1px solid var(--edge);white-space:nowrap}
tr:last-child td{border-bottom:0}
th{color:var(--soft);font-weight:500;font-size:13px}
th:first-child,td:first-child{text-align:left}
td:first-child{white-space:normal;min-width:130px;overflow-wrap:anywhere}
td i{display:inline-block;width:14px;height:4px;border-radius:2px;margin-right:8px;vertical-align:3px}
.facts{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:18px}
.facts section{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:6px 16px 10px;min-width:0;
break-inside:avoid}
.facts h2{margin:10px 0 6px;font-size:15px}
.facts dl{display:grid;grid-template-columns:minmax(90px,max-content) minmax(0,1fr);gap:4px 18px;margin:0;font-size:14px}
.facts dt{color:var(--soft)}.facts dd{margin:0;overflow-wrap:anywhere}
details{margin:18px 0 0}summary{cursor:pointer;color:var(--soft);font-size:14px}
pre{background:var(--card);border:1px solid var(--edge);border-radius:10px;padding:14px 16px;overflow-x:auto;
font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
footer{margin-top:36px;color:var(--soft);font-size:12.5px}
@media screen and (max-width:760px){main{padding:22px 14px 36px}h1{font-size:22px}.charts,.facts,figure.wide{grid-template-columns:
minmax(0,1fr)}.tiles{grid-template-columns:repeat(2,minmax(0,1fr))}.tiles dd{font-size:19px}svg text{font-size:15px}
figcaption .legend{margin-left:0;width:100%}figure{padding:12px 12px 8px}.facts dl{gap:4px 12px}
.tiles div:last-child:nth-child(odd){grid-column:1/-1}}
@media print{:root{color-scheme:light;--ground:#fff;--card:#fff;--edge:#d5d5d0;--ink:#000;--soft:#444;--grid:#e4e4e0;
--axis:#888;--alarm:#c0392b;--shade:#f6ded8;--c0:#0b6fb8;--c1:#cf5a10;--c2:#0a8a66;--c3:#b0578f;--c4:#b07d00;
--c5:#3b93c4;--c6:#5b5f63}main{max-width:none;padding:0}.runs{position:static}details{display:none}svg text{font-size:13px}.charts,.facts{gap:12px}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}body{font-size:12px}}
)css";

}  // namespace tandem::report
