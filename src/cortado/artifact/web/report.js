"use strict";
// Draws the arena map and the RAM curve from the data in the page. Names are anybody's: they only become text nodes.
(() => {
  const source = document.getElementById("arena-data");
  if (source) drawArena(JSON.parse(source.textContent));
  document.querySelectorAll("table.sortable").forEach(makeSortable);

  function drawArena(data) {
    const { buffers, moments } = data;
    const host = document.getElementById("arena-picture");
    const tip = document.getElementById("arena-tip");
    const details = document.getElementById("arena-details");
    const whole = { t0: 0, t1: moments.length, a0: 0, a1: data.arena_bytes };
    let view = whole;
    let chosen = null;
    let shapes = [];
    let frame = null; // where the plot lies in the picture, in pixels

    const number = (value) => value.toLocaleString("en-US");
    const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
    const range = (buffer) => `${number(buffer.offset)} to ${number(buffer.offset + buffer.bytes)}`;
    const momentLabel = (at) => `stage ${moments[at].stage}, ${moments[at].label}`;

    function element(name, attributes, parent, text) {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      if (text !== undefined) made.textContent = text;
      if (parent) parent.append(made);
      return made;
    }

    // ---- the picture ----------------------------------------------------------------------------------------------

    function draw() {
      const width = Math.max(host.clientWidth, 240);
      const narrow = width < 560;
      const left = narrow ? 56 : 68, right = 10, top = 22, map = narrow ? 300 : 400, gap = 26, curve = narrow ? 90 : 120;
      const inner = width - left - right;
      const x = (t) => left + (inner * (t - view.t0)) / (view.t1 - view.t0);
      const y = (a) => top + map - (map * (a - view.a0)) / (view.a1 - view.a0);
      const base = top + map + gap + curve;
      frame = { left, right: left + inner, top, map, base, x, y };

      const svg = element("svg", { height: base + 34, role: "group", "aria-label": data.title });
      patterns(svg);
      stages(svg, x, top, map, gap, curve, base, inner);
      addresses(svg, left, inner, y);
      lasting(svg, x, y);
      const clip = element("g", { "clip-path": "url(#map-clip)" }, svg);
      element("rect", { x: left, y: top, width: inner, height: map }, element("clipPath", { id: "map-clip" }, svg));
      rectangles(clip, x, y);
      ramCurve(svg, x, left, inner, top + map + gap, curve, base);
      element("line", { id: "arena-cursor", class: "cursor", y1: top, y2: base, visibility: "hidden" }, svg);
      host.replaceChildren(svg);
      if (chosen !== null) mark(chosen);
    }

    function patterns(svg) {
      const defs = element("defs", {}, svg);
      const hatch = element("pattern", { id: "hatch", width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, defs);
      element("line", { class: "hatch-line", x1: 0, y1: 0, x2: 0, y2: 7 }, hatch);
      const rows = element("pattern", { id: "rows", width: 6, height: 5, patternUnits: "userSpaceOnUse" }, defs);
      element("line", { class: "row-line", x1: 0, y1: 0.5, x2: 6, y2: 0.5 }, rows);
    }

    function stages(svg, x, top, map, gap, curve, base, inner) {
      const spans = [];
      moments.forEach((moment, at) => {
        const last = spans[spans.length - 1];
        if (last && last.stage === moment.stage) last.end = at + 1;
        else spans.push({ stage: moment.stage, start: at, end: at + 1 });
      });
      const shown = spans.filter((span) => span.end > view.t0 && span.start < view.t1);
      let free = -Infinity;
      for (const span of shown) {
        const from = x(Math.max(span.start, view.t0)), to = x(Math.min(span.end, view.t1));
        if (span.stage % 2 === 0) {
          element("rect", { class: "band", x: from, y: top, width: to - from, height: map }, svg);
          element("rect", { class: "band", x: from, y: top + map + gap, width: to - from, height: curve }, svg);
        }
        const middle = (from + to) / 2;
        if (middle - free > 22) {
          element("text", { x: middle, y: base + 14, "text-anchor": "middle" }, svg, String(span.stage));
          free = middle;
        }
      }
      element("text", { x: frame.left + inner, y: base + 29, "text-anchor": "end" }, svg, "stage, in the order of time \u2192");
    }

    function steps(low, high, most) {
      let step = 1;
      while ((high - low) / step > most) step *= 2;
      const found = [];
      for (let value = Math.ceil(low / step) * step; value <= high; value += step) found.push(value);
      return found;
    }

    function bytesText(value) {
      if (value && value % 1048576 === 0) return `${value / 1048576} MiB`;
      return value >= 1024 && value % 512 === 0 ? `${number(value / 1024)} KiB` : number(value);
    }

    function addresses(svg, left, inner, y) {
      element("text", { x: 2, y: 12 }, svg, "address");
      for (const value of steps(view.a0, view.a1, 8)) {
        element("line", { class: "grid", x1: left, x2: left + inner, y1: y(value), y2: y(value) }, svg);
        element("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, svg, bytesText(value));
      }
      if (view.a1 < data.arena_bytes) return;
      const top = y(data.arena_bytes);
      element("line", { class: "arena-top", x1: left, x2: left + inner, y1: top, y2: top }, svg);
      element("text", { class: "peak", id: "arena-top", x: left + inner, y: top - 6, "text-anchor": "end" }, svg, `arena ${number(data.arena_bytes)} bytes`);
    }

    function lasting(svg, x, y) {
      // Nothing else ever lies where state does.
      for (const buffer of buffers.filter((one) => one.kind === "state")) {
        const low = y(buffer.offset), high = y(buffer.offset + buffer.bytes);
        if (high > frame.top + frame.map || low < frame.top) continue;
        const attributes = { class: "lasting", x: frame.left, width: frame.right - frame.left, y: Math.max(high, frame.top), height: Math.max(low - high, 1) };
        element("rect", attributes, svg);
      }
    }

    function rectangles(layer, x, y) {
      shapes = buffers.map(() => null);
      const box = (start, end, low, high) => {
        const from = x(start), to = x(end), up = y(high), down = y(low);
        return { x: from + 0.5, y: Math.min(up, down - 2) + 0.5, width: Math.max(to - from - 1, 1.5), height: Math.max(down - up - 1, 2) };
      };
      const order = buffers.map((_, at) => at).sort((a, b) => buffers[a].over.length - buffers[b].over.length || buffers[b].bytes - buffers[a].bytes);
      const above = [];
      for (const at of order) {
        const buffer = buffers[at];
        const place = box(buffer.start, buffer.end, buffer.offset, buffer.offset + buffer.bytes);
        const name = `${buffer.label}: ${buffer.kind}, ${number(buffer.bytes)} bytes, addresses ${range(buffer)}`;
        const shape = element("rect", { class: `buffer kind-${buffer.kind}${buffer.persists ? " lasts" : ""}`, rx: 1.5, tabindex: -1, role: "button", "aria-label": name, "data-name": buffer.name, ...place }, layer);
        shape.addEventListener("focus", () => choose(at));
        shape.addEventListener("click", () => shape.focus());
        shape.addEventListener("dblclick", () => zoomTo(buffer));
        shape.addEventListener("keydown", (event) => onKey(event, at));
        shapes[at] = shape;
        if (buffer.ring_rows !== null) above.push(["rows", place, buffer]);
        for (const other of buffers.filter((one) => buffer.over.includes(one.name))) {
          const start = Math.max(buffer.start, other.start), end = Math.min(buffer.end, other.end);
          const low = Math.max(buffer.offset, other.offset), high = Math.min(buffer.offset + buffer.bytes, other.offset + other.bytes);
          if (start < end && low < high) above.push(["hatch", box(start, end, low, high), null]);
        }
      }
      for (const [pattern, place] of above) element("rect", { class: `hatch ${pattern}`, fill: `url(#${pattern})`, ...place }, layer);
      for (const at of order) caption(layer, buffers[at], shapes[at]);
      const first = chosen === null ? 0 : chosen;
      if (shapes[first]) shapes[first].setAttribute("tabindex", 0);
    }

    function caption(layer, buffer, shape) {
      // Along the longer side; of a name that is too long its end, which tells the modules of a network apart.
      const get = (name) => Number(shape.getAttribute(name));
      const from = Math.max(get("x"), frame.left), to = Math.min(get("x") + get("width"), frame.right);
      const up = Math.max(get("y"), frame.top), down = Math.min(get("y") + get("height"), frame.top + frame.map);
      const upright = to - from < 70 && down - up > to - from;
      const room = Math.floor(((upright ? down - up : to - from) - 8) / 6);
      if ((upright ? to - from : down - up) < 13 || room < 4) return;
      const rows = buffer.ring_rows === null ? "" : `${buffer.short}, ${buffer.ring_rows} of ${number(buffer.rows)} rows`;
      const name = rows && rows.length <= room ? rows : buffer.short;
      const text = name.length > room ? `\u2026${name.slice(1 - room)}` : name;
      const place = upright ? { transform: `translate(${(from + to) / 2 + 4},${up + 5}) rotate(-90)`, "text-anchor": "end" } : { x: from + 4, y: Math.min(up + 13, (up + down) / 2 + 4) };
      element("text", { class: "inside", ...place }, layer, text);
    }

    function ramCurve(svg, x, left, inner, top, high, base) {
      const most = Math.max(data.arena_bytes, 1);
      const y = (bytes) => base - (high * bytes) / most;
      const group = element("g", { "clip-path": "url(#curve-clip)" }, svg);
      element("rect", { x: left, y: top - 8, width: inner, height: high + 8 }, element("clipPath", { id: "curve-clip" }, svg));
      element("text", { x: 2, y: top - 8 }, svg, "in use");
      for (const value of steps(0, most, 3)) {
        element("line", { class: "grid", x1: left, x2: left + inner, y1: y(value), y2: y(value) }, svg);
        element("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" }, svg, bytesText(value));
      }
      const points = moments.flatMap((moment, at) => [`${x(at)},${y(moment.bytes)}`, `${x(at + 1)},${y(moment.bytes)}`]);
      const path = `M${x(0)},${base} L${points.join(" L")} L${x(moments.length)},${base} Z`;
      element("path", { class: "curve", id: "ram-curve", d: path }, group);
      const peak = moments[data.peak], at = x(data.peak + 0.5);
      if (at < left || at > left + inner) return;
      element("circle", { class: "dot", cx: at, cy: y(peak.bytes), r: 3.5 }, svg);
      const room = Math.floor((inner - 8) / 6.4);
      const text = `peak: ${number(peak.bytes)} bytes, ${momentLabel(data.peak)}`;
      const end = at > left + inner / 2;
      const shown = text.length > room ? `${text.slice(0, room - 1)}\u2026` : text;
      const start = end ? Math.max(at + 4, left + Math.min(shown.length * 6.4, inner)) : Math.max(Math.min(at - 4, left + inner - shown.length * 6.4), left);
      element("text", { class: "peak", id: "ram-peak", x: start, y: top - 8, "text-anchor": end ? "end" : "start" }, svg, shown);
    }

    // ---- what is looked at ----------------------------------------------------------------------------------------

    function mark(at) {
      shapes.forEach((shape, index) => {
        const linked = at !== null && (buffers[at].over.includes(buffers[index].name) || buffers[index].over.includes(buffers[at].name));
        shape.classList.toggle("chosen", index === at);
        shape.classList.toggle("linked", linked);
        if (at !== null) shape.setAttribute("tabindex", index === at ? 0 : -1);
      });
    }

    function choose(at) {
      chosen = at;
      mark(at);
      tell(buffers[at]);
      const place = shapes[at].getBBox();
      showTip(buffers[at], clamp(place.x + place.width / 2, frame.left, frame.right), clamp(place.y, frame.top, frame.top + frame.map));
    }

    function tell(buffer) {
      const last = Math.min(buffer.end, moments.length) - 1;
      const rows = [
        ["buffer", buffer.label],
        ["holds", describe(buffer)],
        ["size", `${number(buffer.bytes)} bytes`],
        ["address", `${range(buffer)} (the end is not part of it)`],
        ["lives", buffer.kind === "state" ? "always: it persists from call to call" : `from ${momentLabel(buffer.start)} to ${momentLabel(last)}${buffer.persists ? ", and from row to row" : ""}`],
      ];
      if (buffer.over.length) rows.push(["laid over", buffer.over.map(labelOf).join(", ") + ": reuses bytes that are already dead"]);
      rows.push(["in the graph", buffer.name]);
      const list = document.createElement("dl");
      for (const [term, text] of rows) {
        list.append(Object.assign(document.createElement("dt"), { textContent: term }), Object.assign(document.createElement("dd"), { textContent: text }));
      }
      details.replaceChildren(list);
    }

    function describe(buffer) {
      const shape = buffer.shape.length ? ` [${buffer.shape.join(", ")}]` : "";
      const ring = buffer.ring_rows === null ? "" : `, a ring: ${number(buffer.ring_rows)} of ${number(buffer.rows)} rows`;
      return `${buffer.kind}${shape}${ring}`;
    }

    function labelOf(name) {
      const found = buffers.find((one) => one.name === name);
      return found ? found.label : name;
    }

    function showTip(buffer, px, py) {
      tip.textContent = `${buffer.label}: ${number(buffer.bytes)} bytes at ${number(buffer.offset)}`;
      tip.hidden = false;
      const wide = host.clientWidth;
      tip.style.left = `${clamp(px + host.offsetLeft + 12, 0, Math.max(wide - tip.offsetWidth, 0))}px`;
      tip.style.top = `${py + host.offsetTop - tip.offsetHeight - 10}px`;
    }

    function onPointer(event) {
      const box = host.getBoundingClientRect();
      const px = event.clientX - box.left, py = event.clientY - box.top;
      const cursor = document.getElementById("arena-cursor");
      const inside = px >= frame.left && px < frame.right;
      cursor.setAttribute("visibility", inside ? "visible" : "hidden");
      const at = shapes.indexOf(event.target);
      if (at >= 0) {
        mark(at);
        tell(buffers[at]);
        showTip(buffers[at], px, py);
      }
      if (!inside) return;
      cursor.setAttribute("x1", px);
      cursor.setAttribute("x2", px);
      const moment = clamp(Math.floor(view.t0 + ((px - frame.left) / (frame.right - frame.left)) * (view.t1 - view.t0)), 0, moments.length - 1);
      if (at < 0) {
        tip.textContent = `${momentLabel(moment)}: ${number(moments[moment].bytes)} bytes in use`;
        tip.hidden = false;
        tip.style.left = `${clamp(px + host.offsetLeft + 12, 0, Math.max(host.clientWidth - tip.offsetWidth, 0))}px`;
        tip.style.top = `${py + host.offsetTop - tip.offsetHeight - 10}px`;
      }
    }

    function onLeave() {
      tip.hidden = true;
      document.getElementById("arena-cursor").setAttribute("visibility", "hidden");
      mark(chosen);
      if (chosen !== null) tell(buffers[chosen]);
    }

    // ---- keys and zoom --------------------------------------------------------------------------------------------

    function onKey(event, at) {
      const moves = {
        ArrowRight: () => at + 1, ArrowLeft: () => at - 1, Home: () => 0, End: () => buffers.length - 1,
        ArrowUp: () => beside(at, 1), ArrowDown: () => beside(at, -1),
      };
      if (event.key in moves) {
        event.preventDefault();
        const next = clamp(moves[event.key](), 0, buffers.length - 1);
        if (!visible(buffers[next])) show(whole, next);
        shapes[next].focus();
      } else if (event.key === "Enter") zoomTo(buffers[at]);
      else if (event.key === "Escape") show(whole, at);
    }

    function beside(at, direction) {
      // The next buffer above or below that lives at the same time.
      const here = buffers[at];
      const living = buffers.map((_, index) => index).filter((index) => index !== at && buffers[index].start < here.end && here.start < buffers[index].end);
      const distance = (index) => (buffers[index].offset - here.offset) * direction || (index - at) * direction;
      const further = living.filter((index) => distance(index) > 0).sort((a, b) => distance(a) - distance(b));
      return further.length ? further[0] : at;
    }

    function visible(buffer) {
      return buffer.start < view.t1 && buffer.end > view.t0 && buffer.offset < view.a1 && buffer.offset + buffer.bytes > view.a0;
    }

    function show(next, focus) {
      view = next;
      draw();
      if (focus !== undefined && shapes[focus]) shapes[focus].focus();
    }

    function zoomTo(buffer) {
      const time = Math.max(buffer.end - buffer.start, 2), size = Math.max(buffer.bytes * 2, 64);
      const t0 = clamp(buffer.start - time / 2, 0, moments.length), a0 = clamp(buffer.offset - size / 4, 0, data.arena_bytes);
      show({ t0, t1: clamp(t0 + 2 * time, t0 + 1, Math.max(moments.length, t0 + 1)), a0, a1: Math.min(a0 + size, Math.max(data.arena_bytes, a0 + 1)) }, buffers.indexOf(buffer));
    }

    function zoomBy(factor) {
      const around = chosen === null ? null : buffers[chosen];
      const part = (low, high, middle, most) => {
        const half = Math.min(((high - low) * factor) / 2, most / 2);
        const start = clamp(middle - half, 0, most - 2 * half);
        return [start, start + 2 * half];
      };
      const [t0, t1] = part(view.t0, view.t1, around ? (around.start + around.end) / 2 : data.peak + 0.5, moments.length);
      const [a0, a1] = part(view.a0, view.a1, around ? around.offset + around.bytes / 2 : (view.a0 + view.a1) / 2, data.arena_bytes);
      if (a1 - a0 >= 16 && t1 - t0 >= 0.5) show({ t0, t1, a0, a1 });
    }

    document.getElementById("zoom-in").addEventListener("click", () => zoomBy(0.5));
    document.getElementById("zoom-out").addEventListener("click", () => zoomBy(2));
    document.getElementById("zoom-all").addEventListener("click", () => show(whole));
    host.addEventListener("pointermove", onPointer);
    host.addEventListener("pointerleave", onLeave);
    host.addEventListener("focusout", () => { tip.hidden = true; });
    let width = 0;
    new ResizeObserver(() => {
      if (host.clientWidth !== width) {
        width = host.clientWidth;
        draw();
      }
    }).observe(host);
  }

  // ---- tables -------------------------------------------------------------------------------------------------------

  function makeSortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    const body = table.tBodies[0];
    const original = [...body.rows];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        heads.forEach((one) => one.removeAttribute("aria-sort"));
        if (before === "ascending") return body.append(...original);
        const direction = before === "descending" ? 1 : -1;
        head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
        const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
        const order = (a, b) => (isNaN(a) || isNaN(b) || a === "" || b === "" ? String(a).localeCompare(String(b)) : a - b);
        body.append(...[...original].sort((a, b) => direction * order(key(a), key(b))));
      });
    });
  }
})();
