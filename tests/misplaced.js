// Texts that are cut or leave the page, and parts that lie on each other, the first five, as lines. What a scroller hides is not looked at.
() => {
  const kinds = "h1, h2, h3, h4, p, li, th, td, caption, figcaption, figure img, summary .id, summary .numbers, dt, dd, pre, label";
  const inside = (a, b) => ({
    left: Math.max(a.left, b.left), top: Math.max(a.top, b.top), right: Math.min(a.right, b.right), bottom: Math.min(a.bottom, b.bottom),
  });
  const empty = box => box.right - box.left < 1.5 || box.bottom - box.top < 1.5;
  const clip = one => {
    let box = { left: -1e9, top: -1e9, right: 1e9, bottom: 1e9 };
    for (let up = one.parentElement; up; up = up.parentElement)
      if (getComputedStyle(up).overflowX !== "visible") box = inside(box, up.getBoundingClientRect());
    return box;
  };
  const scroller = one => one.closest(".wide");
  const turns = wide => wide && wide.scrollHeight > wide.clientHeight + 1;  // its head lies on what it has scrolled past
  const faults = [], boxes = [], width = document.documentElement.clientWidth;
  for (const one of document.querySelectorAll(kinds)) {
    if (!one.checkVisibility() || one.querySelector(kinds)) continue;
    const own = one.getBoundingClientRect(), range = document.createRange(), say = `${one.tagName} ${one.textContent.slice(0, 40)}`;
    range.selectNodeContents(one);
    const out = text => text.left < own.left - 1.5 || text.right > own.right + 1.5 || text.top < own.top - 4 || text.bottom > own.bottom + 4;
    if (one.textContent.trim() && [...range.getClientRects()].some(out)) faults.push(`cut: ${say}`);
    if (!scroller(one) && (own.left < -1 || own.right > width + 1)) faults.push(`outside: ${say}`);
    const box = inside(own, clip(one));
    if (!empty(box)) boxes.push([box, one, say]);
  }
  boxes.sort((a, b) => a[0].top - b[0].top);
  boxes.forEach(([a, one, say], n) => {
    for (let m = n + 1; m < boxes.length && boxes[m][0].top < a.bottom - 1.5; m++) {
      const [b, other, too] = boxes[m];
      if (empty(inside(a, b)) || (turns(scroller(one)) && scroller(one) === scroller(other))) continue;
      faults.push(`overlap: ${say} | ${too}`);
    }
  });
  return faults.slice(0, 5);
}
