#include "study/report/page_parts.h"

namespace shardlm::report {

// Two things that a page cannot do by itself: a switch between the themes, and the sliders. All
// else works without.
std::string_view page_script() {
  return R"js(
(function () {
  'use strict';
  const root = document.documentElement, toggle = document.getElementById('theme');
  const dark = () => root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
  const label = () => { toggle.textContent = dark() ? 'Light' : 'Dark'; };
  toggle.hidden = false;
  toggle.addEventListener('click', () => { root.dataset.theme = dark() ? 'light' : 'dark'; label(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', label);
  // On paper the light theme, whatever is on the screen.
  let before;
  addEventListener('beforeprint', () => { before = root.dataset.theme; root.dataset.theme = 'light'; });
  addEventListener('afterprint', () => { if (before) root.dataset.theme = before; else delete root.dataset.theme; });
  label();

  const source = document.getElementById('what-if-data');
  if (!source) return;
  const w = JSON.parse(source.textContent), chart = document.getElementById('what-if-chart');
  const curves = chart.querySelectorAll('path.line'), rule = chart.querySelector('line.rule');
  const alpha = document.getElementById('what-if-alpha'), rate = document.getElementById('what-if-rate');
  const rows = document.querySelectorAll('#what-if-now tbody tr');
  const link = { alpha: w.alpha, beta: w.beta, o: w.o };
  const place = (s, v) => s.from + Math.log(v / s.low) / Math.log(s.high / s.low) * (s.to - s.from);
  // ms a step: computation, and the calls by the quickest algorithm.
  function step(r, a) {
    let least = Infinity, name = '–';
    for (const [algorithm, rounds, moved, summed, messages] of r.algorithms) {
      const s = rounds * a + moved * link.beta + summed * w.gamma + messages * link.o;
      if (s < least) { least = s; name = algorithm; }
    }
    return { ms: r.base_ms + (r.algorithms.length ? 1e3 * w.calls * least : 0), name: name };
  }
  function path(r) {
    let d = '';
    for (let k = 0; k <= w.points; ++k) {
      const a = w.least_alpha * Math.pow(w.most_alpha / w.least_alpha, k / w.points);
      d += (k ? 'L' : 'M') + place(w.x, a * 1e6).toFixed(2) + ' ' + place(w.y, step(r, a).ms).toFixed(2);
    }
    return d;
  }
  const seconds = s => s >= 1e-3 ? (s * 1e3).toPrecision(3) + ' ms' : (s * 1e6).toPrecision(3) + ' µs';
  function draw() {
    const one = step(w.ranks[0], link.alpha).ms;
    w.ranks.forEach((r, i) => {
      curves[i].setAttribute('d', path(r));
      const s = step(r, link.alpha), cells = rows[i].children;
      cells[1].textContent = s.ms.toFixed(3);
      cells[2].textContent = (1e3 * w.batch / s.ms).toFixed(1);
      cells[3].textContent = (one / s.ms).toFixed(2);
      cells[4].textContent = (100 * (s.ms - r.base_ms) / s.ms).toFixed(0) + ' %';
      cells[5].textContent = s.name;
    });
    const x = place(w.x, Math.min(Math.max(link.alpha, w.least_alpha), w.most_alpha) * 1e6).toFixed(2);
    rule.setAttribute('x1', x);
    rule.setAttribute('x2', x);
    document.getElementById('what-if-alpha-text').textContent = seconds(link.alpha);
    document.getElementById('what-if-rate-text').textContent = (1e-9 / link.beta).toPrecision(3) + ' GB/s';
  }
  alpha.addEventListener('input', () => { link.alpha = Math.pow(10, +alpha.value); draw(); });
  rate.addEventListener('input', () => { link.beta = Math.pow(10, -rate.value); draw(); });
  document.querySelectorAll('button[data-link]').forEach(button => button.addEventListener('click', () => {
    const to = w.links[button.dataset.link] || { alpha: w.alpha, beta: w.beta, o: w.o };
    link.alpha = to.alpha;
    link.beta = to.beta;
    link.o = to.o;
    alpha.value = Math.log10(link.alpha);
    rate.value = -Math.log10(link.beta);
    draw();
  }));
  document.getElementById('what-if-sliders').hidden = false;
  draw();
})();
)js";
}

}  // namespace shardlm::report
