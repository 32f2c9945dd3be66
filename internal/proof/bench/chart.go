package bench

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/qrtz-go/qrtz"
)

const historyNone = string(qrtz.HistoryNone)

// The chart: two panels side by side, in pixels.
const (
	chartWidth, chartHeight = 1000, 400
	panelTop, panelHeight   = 60, 260
	barsLeft, barsWidth     = 70, 400
	lateLeft, lateWidth     = 560, 400
)

// chartStyle is readable on GitHub's light and dark pages: the page's own colour shows through.
const chartStyle = `
text { font: 12px system-ui, sans-serif; fill: #57606a } .title { font-size: 14px; font-weight: 600; fill: #24292f }
.grid { stroke: #8c959f; stroke-opacity: .35 } .floor { stroke: #cf222e; stroke-width: 2; stroke-dasharray: 5 4 } .over { fill: #57606a }
.c0 { fill: #54aeff; stroke: #54aeff } .c1 { fill: #218bff; stroke: #218bff } .c2 { fill: #8250df; stroke: #8250df } .c3 { fill: #bf8700; stroke: #bf8700 }
polyline { fill: none !important; stroke-width: 2 }
@media (prefers-color-scheme: dark) { text, .over { fill: #9198a1 } .title { fill: #f0f6fc } .floor { stroke: #ff7b72 } }
`

// SVG draws throughput by number of nodes beside the floor, and lateness by percentile.
func (r *Report) SVG(out io.Writer) error {
	var c canvas
	c.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="fires a second and lateness">`, chartWidth, chartHeight)
	c.printf(`<style>%s</style>`, chartStyle)
	c.bars(r)
	c.lateness(r)
	c.printf(`</svg>`)
	_, err := io.WriteString(out, c.String())
	return err
}

type canvas struct{ strings.Builder }

func (c *canvas) printf(format string, args ...any) { fmt.Fprintf(&c.Builder, format+"\n", args...) }

func (c *canvas) text(x, y float64, class, anchor, text string) {
	c.printf(`<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, html.EscapeString(text))
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	c.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`, x1, y1, x2, y2, class)
}

// bars draws a group of bars for each rule of history, one bar for each number of nodes, and the floor across the group.
func (c *canvas) bars(r *Report) {
	if len(r.Claims) == 0 {
		return
	}
	var histories []string
	var nodes []int
	top := 0.0
	for _, one := range r.Claims {
		if !slices.Contains(histories, one.History) {
			histories = append(histories, one.History)
		}
		if !slices.Contains(nodes, one.Nodes) {
			nodes = append(nodes, one.Nodes)
		}
		top = max(top, one.Most.Fires, r.bestFloor(one.History))
	}
	c.text(barsLeft, 24, "title", "start", "Fires started a second, by history")
	unit := niceUnit(top / 5)
	y := func(v float64) float64 { return panelTop + panelHeight*(1-v/top) }
	for v := 0.0; v <= top; v += unit {
		c.line(barsLeft, y(v), barsLeft+barsWidth, y(v), "grid")
		c.text(barsLeft-8, y(v)+4, "", "end", figure(v))
	}
	group := float64(barsWidth) / float64(len(histories))
	bar := group * 0.8 / float64(len(nodes))
	for _, one := range r.Claims {
		g, k := slices.Index(histories, one.History), slices.Index(nodes, one.Nodes)
		x := barsLeft + group*(float64(g)+0.1) + bar*float64(k)
		c.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="c%d"/>`, x, y(one.Most.Fires), bar-2, panelTop+panelHeight-y(one.Most.Fires), k%4)
		c.text(x+bar/2-1, y(one.Most.Fires)-4, "", "middle", fmt.Sprintf("%.0fk", one.Most.Fires/1000))
	}
	for g, history := range histories {
		x := barsLeft + group*float64(g)
		c.text(x+group/2, panelTop+panelHeight+18, "", "middle", "history "+strings.ToLower(history))
		if floor := r.bestFloor(history); floor > 0 {
			c.line(x+4, y(floor), x+group-4, y(floor), "floor")
		}
	}
	labels := []string{}
	for _, n := range nodes {
		labels = append(labels, plural(n, "node"))
	}
	c.legend(barsLeft, labels)
	if len(r.Floor) > 0 {
		c.line(barsLeft+290, chartHeight-26, barsLeft+314, chartHeight-26, "floor")
		c.text(barsLeft+320, chartHeight-22, "", "start", "the bare SQL")
	}
}

// lateness draws a line for each steady rate: a percentage of fires against how late they were at most, both logarithmic.
func (c *canvas) lateness(r *Report) {
	var lines []Lateness
	low, high, rarest := math.Inf(1), 0.0, 1.0
	for _, l := range r.Lateness {
		if len(l.Curve) == 0 || len(lines) == 4 {
			continue
		}
		lines = append(lines, l)
		for _, p := range l.Curve {
			low, high = min(low, max(p.Ms, 0.01)), max(high, p.Ms)
			rarest = max(rarest, nines(p.Percent))
		}
	}
	if len(lines) == 0 {
		return
	}
	bottom, decades := math.Floor(math.Log10(low)), 1.0
	decades = max(decades, math.Ceil(math.Log10(high))-bottom)
	x := func(percent float64) float64 { return lateLeft + lateWidth*nines(percent)/rarest }
	y := func(ms float64) float64 {
		return panelTop + panelHeight*(1-(math.Log10(max(ms, 0.01))-bottom)/decades)
	}
	c.text(lateLeft, 24, "title", "start", "How late handlers start, in milliseconds")
	for d := 0.0; d <= decades; d++ {
		ms := math.Pow(10, bottom+d)
		c.line(lateLeft, y(ms), lateLeft+lateWidth, y(ms), "grid")
		c.text(lateLeft-8, y(ms)+4, "", "end", fmt.Sprintf("%g", ms))
	}
	for _, percent := range []float64{50, 90, 99, 99.9, 99.99} {
		if nines(percent) <= rarest {
			c.line(x(percent), panelTop, x(percent), panelTop+panelHeight, "grid")
			c.text(x(percent), panelTop+panelHeight+18, "", "middle", fmt.Sprintf("%g %%", percent))
		}
	}
	labels := []string{}
	for i, l := range lines {
		var points []string
		for _, p := range l.Curve {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(p.Percent), y(p.Ms)))
		}
		c.printf(`<polyline points="%s" class="c%d"/>`, strings.Join(points, " "), i)
		labels = append(labels, fmt.Sprintf("%s, %s", l.Load, plural(l.Nodes, "node")))
	}
	c.legend(lateLeft, labels)
}

// legend names the colours, two to a row.
func (c *canvas) legend(left float64, labels []string) {
	width := 90.0
	if len(labels) > 0 && len(labels[0]) > 8 {
		width = 190
	}
	perRow := int(math.Floor(430 / width))
	for i, label := range labels {
		x, y := left+width*float64(i%perRow), float64(chartHeight-32+18*(i/perRow))
		c.printf(`<rect x="%.1f" y="%.1f" width="12" height="12" class="c%d"/>`, x, y, i%4)
		c.text(x+18, y+10, "", "start", label)
	}
}

// nines is where a percentage lies on the axis: 90 at 1, 99 at 2, 99.9 at 3.
func nines(percent float64) float64 { return -math.Log10(1 - percent/100) }

// niceUnit is the next 1, 2 or 5 times a power of ten.
func niceUnit(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(max(v, 1))))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v {
			return m * power
		}
	}
	return 10 * power
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
