"use strict";
/* Draws the figures that carry their data; colours are the style sheet's, and follow light and dark. */
(() => {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const drawn = new Map();

  function frame() {
    const soft = colour("soft"), line = colour("line");
    return {
      animation: !window.matchMedia("(prefers-reduced-motion: reduce)").matches,
      animationDuration: 400,
      aria: { enabled: true },
      textStyle: { fontFamily: "system-ui, sans-serif", color: colour("ink") },
      tooltip: { renderMode: "richText", trigger: "axis", confine: true, backgroundColor: colour("card"), borderColor: line, textStyle: { color: colour("ink"), fontSize: 12 }, axisPointer: { type: "shadow", shadowStyle: { color: colour("line"), opacity: 0.4 } } },
      legend: { top: 0, left: 0, itemWidth: 12, itemHeight: 10, textStyle: { color: soft, fontSize: 12 } },
      axis: { axisLine: { lineStyle: { color: line } }, axisTick: { show: false }, axisLabel: { color: soft, fontSize: 12, hideOverlap: true }, splitLine: { lineStyle: { color: line } }, nameTextStyle: { color: soft } },
    };
  }

  const bar = (name, data, fill, more = {}) => ({ name, type: "bar", data, itemStyle: { color: fill, borderRadius: 3 }, ...more });

  const options = {
    payments(spec) {
      const { axis, ...base } = frame();
      const names = [...spec.names].reverse(), turned = (values) => [...values].reverse();
      return {
        ...base,
        grid: { left: 4, right: 24, top: 30, bottom: 4, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
        xAxis: { type: "value", ...axis },
        yAxis: { type: "category", data: names, ...axis, splitLine: { show: false }, axisLabel: { ...axis.axisLabel, width: 110, overflow: "truncate", interval: 0 } },
        series: [
          bar("cap", turned(spec.caps), colour("line"), { barGap: "-100%", barMaxWidth: 20, z: 1 }),
          bar("paid", turned(spec.paid), colour("bar"), { barMaxWidth: 20, z: 2 }),
          { name: "for an empty report", type: "scatter", symbol: "rect", symbolSize: [3, 20], data: turned(spec.empty), itemStyle: { color: colour("mark") }, z: 3 },
        ],
      };
    },
    over_rounds(spec) {
      const { axis, ...base } = frame();
      return {
        ...base,
        grid: { left: 4, right: 8, top: 30, bottom: 4, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
        xAxis: { type: "category", data: spec.names, ...axis, splitLine: { show: false } },
        yAxis: { type: "value", ...axis },
        series: [
          bar("cap", spec.caps, colour("line"), { barGap: "-100%", barMaxWidth: 36, z: 1 }),
          bar("paid", spec.paid, colour("bar"), { barMaxWidth: 36, z: 2 }),
          { name: "for an empty report", type: "scatter", symbol: "rect", symbolSize: [36, 3], data: spec.empty, itemStyle: { color: colour("mark") }, z: 3 },
        ],
      };
    },
    belief(spec) {
      const { axis, ...base } = frame();
      const both = spec.posterior.length > 0;
      const grid = { left: 4, right: 12, top: both ? 28 : 10, bottom: 4, outerBoundsMode: "same", outerBoundsContain: "axisLabel" };
      if (spec.discrete) {
        const series = [bar("prior", spec.prior, colour("prior"))];
        if (both) series.push(bar("posterior", spec.posterior, colour("bar")));
        return { ...base, grid, xAxis: { type: "category", data: spec.places, ...axis, splitLine: { show: false } }, yAxis: { type: "value", max: 1, ...axis }, series };
      }
      const curve = (name, values, fill, z) => ({ name, type: "line", showSymbol: false, data: values.map((value, k) => [spec.places[k], value]), itemStyle: { color: fill }, lineStyle: { color: fill, width: 2 }, areaStyle: { color: fill, opacity: 0.25 }, z });
      const series = [curve("prior", spec.prior, colour("prior"), 1)];
      if (both) series.push(curve("posterior", spec.posterior, colour("bar"), 2));
      return {
        ...base,
        legend: { ...base.legend, show: both },
        tooltip: { ...base.tooltip, axisPointer: { type: "line" }, valueFormatter: () => "" },
        grid,
        xAxis: { type: "value", scale: true, ...axis, splitLine: { show: false }, min: spec.places[0], max: spec.places[spec.places.length - 1], axisLabel: { ...axis.axisLabel, showMinLabel: false, showMaxLabel: false } },
        yAxis: { type: "value", show: false, min: 0 },
        series,
      };
    },
    lies(spec) {
      const { axis, ...base } = frame();
      const names = [...spec.names].reverse();
      const colours = { GAINS: colour("mark"), loses: colour("bar") };
      const data = spec.gain.map((value, k) => ({ value, itemStyle: { color: colours[spec.verdict[k]] || colour("prior") } })).reverse();
      return {
        ...base,
        legend: { show: false },
        tooltip: { ...base.tooltip, valueFormatter: (value) => `${value} % of the cap` },
        grid: { left: 4, right: 24, top: 6, bottom: 4, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
        xAxis: { type: "value", ...axis, axisLabel: { ...axis.axisLabel, formatter: "{value} %" } },
        yAxis: { type: "category", data: names, ...axis, splitLine: { show: false }, axisLabel: { ...axis.axisLabel, width: 150, overflow: "truncate", interval: 0 } },
        series: [{ name: "gain over the truth", type: "bar", data, barMaxWidth: 16 }],
      };
    },
  };

  function draw(figure) {
    const spec = JSON.parse(figure.dataset.chart);
    if (!Object.hasOwn(options, spec.kind)) return;
    figure.classList.add("drawn");
    const tall = spec.kind === "payments" || spec.kind === "lies" ? 60 + 28 * spec.names.length : spec.kind === "belief" ? 200 : 240;
    figure.style.height = `${tall}px`;
    const chart = drawn.get(figure) || echarts.init(figure);
    drawn.set(figure, chart);
    chart.setOption(options[spec.kind](spec), true);
  }

  function drawIn(root) {
    for (const figure of root.querySelectorAll("figure[data-chart]")) if (!drawn.has(figure)) draw(figure);
    for (const [figure, chart] of drawn) {
      if (!figure.isConnected) {
        chart.dispose();
        drawn.delete(figure);
      }
    }
  }

  drawIn(document);
  new MutationObserver(() => drawIn(document)).observe(document.body, { childList: true, subtree: true });
  window.addEventListener("resize", () => { for (const chart of drawn.values()) chart.resize(); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const figure of drawn.keys()) draw(figure); });
})();
