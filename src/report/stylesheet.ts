/** The look of the report. Series colours are told apart by people with any common colour deficiency, on white and on dark. */
export const STYLESHEET = `
:root{color-scheme:light dark;--paper:#fff;--raised:#f6f7f9;--ink:#14181f;--soft:#5a6472;--line:#e2e5ea;--grid:#eceef2;--bad:#a8410a;
--s1:#0b5cad;--s2:#c2560c;--s3:#0b7f5f;--s4:#94398a;--s5:#7d6200;--s6:#566070;--onshade:#fff}
@media (prefers-color-scheme:dark){:root{--paper:#12151a;--raised:#1a1f27;--ink:#e8ebf0;--soft:#a0aab8;--line:#2b323d;--grid:#232933;--bad:#f0a069;
--s1:#6cb1ff;--s2:#f2a365;--s3:#4fcfa5;--s4:#e09ad3;--s5:#dcbb52;--s6:#a9b4c3;--onshade:#0d1014}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;scroll-behavior:smooth}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums}
main{max-width:1080px;margin:0 auto;padding:0 32px 96px}
h1,h2,h3,h4,p,dl,dd,ol,ul,figure{margin:0;padding:0}
h2{font-size:1.5rem;line-height:1.2;letter-spacing:-.015em;margin:72px 0 20px}
h3{font-size:1.0625rem;line-height:1.3;margin:32px 0 12px}
h4{font-size:.875rem;margin:0 0 8px}
small,.muted{color:var(--soft);font-size:.8125rem;font-weight:400;letter-spacing:0}
a{color:inherit}
a:focus-visible,summary:focus-visible,pre:focus-visible{outline:2px solid var(--s1);outline-offset:3px;border-radius:4px}
.visually-hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.intro{color:var(--soft);margin:-8px 0 16px;max-width:68ch}
nav{display:flex;flex-wrap:wrap;gap:4px 24px;padding:20px 0;border-bottom:1px solid var(--line);font-size:.875rem}
nav b{margin-right:auto;letter-spacing:-.01em}
nav a{color:var(--soft);text-decoration:none}
nav a:hover{color:var(--ink);text-decoration:underline;text-underline-offset:3px}
.hero{padding:56px 0 8px}
.eyebrow{color:var(--soft);font-size:.9375rem;overflow-wrap:anywhere}
.figure{font-size:clamp(3.25rem,11vw,5.5rem);line-height:1;letter-spacing:-.04em;font-weight:650;color:var(--s1);margin:8px 0 20px}
.figure span{font-size:.36em;letter-spacing:-.015em;font-weight:500;color:var(--ink)}
.lead{font-size:1.125rem;max-width:62ch;overflow-wrap:anywhere}
.note{margin-top:12px;color:var(--bad)}
.facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(128px,1fr));gap:20px 24px;margin:36px 0;padding:22px 0;border-block:1px solid var(--line)}
.facts div{display:flex;flex-direction:column-reverse;justify-content:flex-end}
.facts dt{color:var(--soft);font-size:.875rem}
.facts dd{font-size:1.375rem;font-weight:600;letter-spacing:-.02em;line-height:1.3}
.intervals{margin:8px 0 0;padding-bottom:4px}
.interval-row{display:grid;grid-template-columns:minmax(72px,150px) 1fr 62px;gap:16px;align-items:center;height:34px}
.interval-name{font-weight:550;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.interval-value{text-align:right;font-weight:600;white-space:nowrap}
.interval-track{position:relative;height:34px}
.interval-track i{position:absolute;font-style:normal}
.interval-grid{top:0;bottom:0;width:1px;background:var(--line)}
.interval-bar{top:50%;height:6px;margin-top:-3px;border-radius:3px;background:currentColor;opacity:.32;min-width:2px}
.interval-dot{top:50%;width:13px;height:13px;margin:-6.5px 0 0 -6.5px;border-radius:50%;background:currentColor;box-shadow:0 0 0 2px var(--paper)}
.interval-row .interval-name,.interval-row .interval-value{color:var(--ink)}
.interval-axis{height:24px;color:var(--soft);font-size:.75rem}
.interval-axis .interval-track{height:24px}
.interval-axis i{transform:translateX(-50%);white-space:nowrap;top:4px}
.s1{color:var(--s1)}.s2{color:var(--s2)}.s3{color:var(--s3)}.s4{color:var(--s4)}.s5{color:var(--s5)}.s6{color:var(--s6)}
table{border-collapse:collapse;width:100%;font-size:.9375rem}
caption{text-align:left;color:var(--soft);font-size:.875rem;padding-bottom:8px}
th,td{text-align:left;padding:9px 10px;border-bottom:1px solid var(--line);vertical-align:top}
th:first-child,td:first-child{padding-left:0}th:last-child,td:last-child{padding-right:0}
thead th{color:var(--soft);font-weight:500;font-size:.8125rem;vertical-align:bottom;white-space:nowrap}
tbody th{font-weight:550}
.number{text-align:right;white-space:nowrap}
.nobreak{white-space:nowrap}
.cards td small,.cards th small{display:block}
.key{display:inline-block;width:10px;height:10px;border-radius:50%;background:currentColor;margin-right:8px}
.cards th small{margin-left:18px}
.scroll{overflow-x:auto;margin-bottom:24px}
.frozen{color:var(--soft)}
.meter{display:inline-block;vertical-align:middle;width:56px;height:5px;border-radius:3px;background:var(--grid);overflow:hidden;margin-right:10px}
.meter i{display:block;height:100%;background:var(--s1);border-radius:3px}
.stage{border-top:1px solid var(--line);padding-top:4px;margin-top:24px}
.stage h3{margin:16px 0 10px}
.stage h3 small{margin-left:8px}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(300px,100%),1fr));gap:20px 24px}
.chart figcaption{font-size:.875rem;font-weight:550;margin-bottom:6px}
.chart svg{display:block;width:100%;height:auto;max-width:420px;overflow:visible}
.tick{fill:var(--soft);font-size:11px}
.grid{stroke:var(--grid);stroke-width:1}
.axis{stroke:var(--line);stroke-width:1}
.diagonal{stroke:var(--soft);stroke-width:1;stroke-dasharray:3 4}
.line{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.line.thin{stroke-width:1.4;opacity:.6}
.s2 .line{stroke-dasharray:7 4}.s3 .line{stroke-dasharray:2 4}.s4 .line{stroke-dasharray:9 3 2 3}.s5 .line{stroke-dasharray:12 4}
.reliability .line{stroke-dasharray:none}
.dot{fill:currentColor}
.reliability .dot{fill-opacity:.85}
.leader{fill:none;stroke:currentColor;stroke-width:1;opacity:.45}
.label{fill:currentColor;font-size:11.5px;font-weight:550}
.confusion{display:grid;grid-template-columns:minmax(0,1.7fr) minmax(220px,1fr);gap:32px 48px;align-items:start}
.confusion>:only-child{grid-column:1/-1}
.heat{table-layout:fixed;font-size:.8125rem;border-collapse:separate;border-spacing:2px}
.heat caption{padding-bottom:6px}
.heat th,.heat td{border:0;padding:0;text-align:center;vertical-align:middle;height:36px;border-radius:4px}
.heat th{font-weight:500;color:var(--soft);font-size:.8125rem}
.heat th span{display:block;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;padding:0 2px}
.heat .right{background:color-mix(in srgb,var(--s1) var(--v),var(--raised))}
.heat .wrong{background:color-mix(in srgb,var(--s2) var(--v),var(--raised))}
.heat .strong{color:var(--onshade);font-weight:600}
.heat.dense{border-spacing:1px}.heat.dense th,.heat.dense td{height:14px;border-radius:1px;font-size:0}
.mistakes ol{list-style:none}
.mistakes li{padding:8px 0;border-bottom:1px solid var(--line);overflow-wrap:anywhere}
.mistakes small{display:block}
details{border-top:1px solid var(--line);padding:14px 0}
details+details{margin-top:0}
summary{cursor:pointer;font-weight:550}
details[open]>summary{margin-bottom:18px}
.diagrams{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(230px,100%),1fr));gap:24px}
.reliability svg{max-width:270px}
.samples{list-style:none;display:grid;grid-template-columns:repeat(auto-fill,minmax(min(250px,100%),1fr));gap:12px}
.samples li{display:flex;gap:14px;background:var(--raised);border-radius:10px;padding:12px;min-width:0}
.samples img{flex:none;width:72px;height:72px;object-fit:contain;image-rendering:pixelated;border-radius:6px;background:#000}
.samples li>div{flex:1;min-width:0}
.truth{font-weight:600;line-height:1.2;margin-bottom:4px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.samples dl div{display:grid;grid-template-columns:minmax(0,1fr) minmax(0,1.25fr);gap:8px;font-size:.8125rem;line-height:1.35}
.samples dt{color:var(--soft);overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.samples dd span{display:block;white-space:nowrap;overflow:hidden;text-overflow:ellipsis}
.samples .meter{display:block;width:100%;margin:0 0 3px;height:4px}
.samples .wrong dd{color:var(--bad)}
.samples .wrong .meter i{background:var(--s2)}
.warnings{padding-left:20px}
.environment{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(300px,100%),1fr));gap:12px 32px;margin-bottom:32px}
.environment dt{color:var(--soft);font-size:.8125rem}
.environment dd{overflow-wrap:anywhere}
pre{margin:0;background:var(--raised);border-radius:10px;padding:18px 20px;overflow-x:auto;font:.8125rem/1.6 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;tab-size:2}
footer{margin-top:64px;padding-top:20px;border-top:1px solid var(--line);color:var(--soft);font-size:.8125rem}
@media (max-width:760px){
main{padding:0 20px 64px}
.hero{padding-top:36px}
h2{margin-top:56px}
nav{gap:4px 16px}nav b{width:100%}
.facts{grid-template-columns:repeat(2,minmax(0,1fr))}
.interval-row{grid-template-columns:72px 1fr 64px;gap:8px}
.confusion{grid-template-columns:minmax(0,1fr)}
.heat th,.heat td{height:30px}
.heat,.heat th{font-size:.6875rem}
.cards thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.cards,.cards tbody,.cards tr,.cards th,.cards td{display:block}
.cards tr{padding:14px 0;border-bottom:1px solid var(--line)}
.cards th,.cards td{border:0;padding:3px 0}
.cards td{display:flex;justify-content:space-between;gap:16px;white-space:normal}
.cards td::before{content:attr(data-label);color:var(--soft);text-align:left}
.cards td small{display:inline}
.cards th{font-size:1rem;padding-bottom:6px}
td>.meter{display:none}
}
@media print{
:root{color-scheme:light;--paper:#fff;--raised:#f4f5f7;--ink:#000;--soft:#444;--line:#ccc;--grid:#e4e6ea;--bad:#8a3200;--s1:#0b5cad;--s2:#c2560c;--s3:#0b7f5f;--s4:#94398a;--s5:#7d6200;--s6:#566070;--onshade:#fff}
*{-webkit-print-color-adjust:exact;print-color-adjust:exact}
nav{display:none}
main{max-width:none;padding:0}
body{font-size:11pt}
h2{margin-top:28pt;break-after:avoid}h3{break-after:avoid}
.chart,.samples li,tr,.stage,.confusion{break-inside:avoid}
.scroll,pre{overflow:visible}pre{white-space:pre-wrap}
}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
`;
