"""Spares axe-core the contrast of texts that look alike: most cells of a table have the colors of
the cell above them.

Two texts look alike if everything that decides their contrast is the same for them and for all that
they stand in: tag, classes, colors, backgrounds, sizes. A text stands for itself alone if something
else may decide: what is out of the flow may lie over something, what scrolls may be cut off, and a
label is judged by its field. This module must not decide what a fault is.
"""

MARKED = "data-looked-at"
"""Attribute of the texts whose contrast axe-core looks at."""

MARK = (
    """() => {
    const decisive = ["color", "fill", "backgroundColor", "backgroundImage", "opacity", "filter",
                      "fontSize", "fontWeight", "textShadow"];
    const known = new Set();
    let count = 0;
    const mark = (node, above) => {
        const style = getComputedStyle(node);
        const isOutOfTheFlow = ["absolute", "fixed", "sticky"].includes(style.position);
        const isCutOff = style.overflow !== "visible"
            && (node.scrollWidth > node.clientWidth || node.scrollHeight > node.clientHeight);
        count += 1;
        const isAlone = isOutOfTheFlow || isCutOff || node.matches("label, [id]");
        const look = [
            above, node.tagName, node.getAttribute("class"), node.disabled,
            node.getAttribute("aria-disabled"), isAlone ? count : 0,
            ...decisive.map(name => style[name]),
        ].join("|");
        const text = [...node.childNodes].filter(one => one.nodeType === Node.TEXT_NODE)
            .map(one => one.data).join("");
        const isShown = node.checkVisibility({visibilityProperty: true});
        // Of a single character axe-core does not know whether it is text.
        const isOfWords = /[\\p{L}\\p{N}].*[\\p{L}\\p{N}]/su.test(text);
        const key = [look, isShown, isOfWords].join("|");
        const isField = node.matches("input, select, textarea, button");
        const isNew = (isField || text.trim()) && !known.has(key);
        node.toggleAttribute("ATTRIBUTE", Boolean(isNew));
        if (isNew) known.add(key);
        for (const child of node.children) mark(child, look);
    };
    mark(document.documentElement, "");
}"""
).replace("ATTRIBUTE", MARKED)
"""Marks the first text of each look, as it is now: in this window and this scheme."""

LOOK_AT_MARKED = (
    f"window.axe.configure({{rules: [{{id: 'color-contrast', selector: '[{MARKED}]'}}]}})"
)
"""Has axe-core measure the contrast of marked texts only. All its other rules look at all."""
