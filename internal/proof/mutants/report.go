package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// outcome is what became of one mutation.
type outcome struct {
	*point
	stage   string // that noticed it; empty if none did
	by      string // the test, or how it ended
	reached int    // tests that reach it
}

// report prints the shares and the survivors.
type report struct {
	stages     []string
	outcomes   []outcome
	equivalent map[*point]string // points that were left out, and why
	all        map[string]int    // points by package
	broken     []string          // tests that fail without a mutation
	stale      []string          // keys of equivalents that are no points any more
	seed       uint64
}

func (r *report) write(w io.Writer) error {
	var t strings.Builder
	fmt.Fprintf(&t, "Of the mutations of each package, chosen with seed %d: how many were noticed, and by which stage\n\n", r.seed)
	fmt.Fprintf(&t, "%-10s %8s %8s %8s %8s", "package", "points", "tried", "noticed", "share")
	for _, s := range r.stages {
		fmt.Fprintf(&t, " %8s", s)
	}
	fmt.Fprintf(&t, " %8s %10s\n", "none", "equivalent")
	for _, name := range sortedKeys(r.all) {
		r.line(&t, name, func(p *point) bool { return p.source.name == name }, r.all[name])
	}
	total := 0
	for _, n := range r.all {
		total += n
	}
	r.line(&t, "all", func(*point) bool { return true }, total)
	r.survivors(&t)
	r.kinds(&t)
	if len(r.equivalent) > 0 {
		fmt.Fprintf(&t, "\nEquivalent, and left out:\n")
		for _, p := range byPlace(r.equivalent) {
			fmt.Fprintf(&t, "  %s\n      %s\n", p.key, r.equivalent[p])
		}
	}
	for _, b := range r.broken {
		fmt.Fprintf(&t, "\nFails without a mutation, and was left out: %s", b)
	}
	for _, k := range r.stale {
		fmt.Fprintf(&t, "\nNo such mutation, in equivalent.txt: %s", k)
	}
	fmt.Fprintln(&t)
	_, err := io.WriteString(w, t.String())
	return err
}

func byPlace(points map[*point]string) (all []*point) {
	for p := range points {
		all = append(all, p)
	}
	slices.SortFunc(all, comparePlaces)
	return all
}

func comparePlaces(a, b *point) int {
	return cmp.Or(cmp.Compare(a.source.path, b.source.path), cmp.Compare(a.file.path, b.file.path), cmp.Compare(a.line, b.line), cmp.Compare(a.id, b.id))
}

func (r *report) line(t *strings.Builder, name string, of func(*point) bool, points int) {
	tried, noticed, equivalent := 0, 0, 0
	by := map[string]int{}
	for _, o := range r.outcomes {
		if of(o.point) {
			tried++
			by[o.stage]++
			if o.stage != "" {
				noticed++
			}
		}
	}
	for p := range r.equivalent {
		if of(p) {
			equivalent++
		}
	}
	fmt.Fprintf(t, "%-10s %8d %8d %8d %7.1f%%", name, points, tried, noticed, 100*float64(noticed)/float64(max(1, tried)))
	for _, s := range r.stages {
		fmt.Fprintf(t, " %8d", by[s])
	}
	fmt.Fprintf(t, " %8d %10d\n", by[""], equivalent)
}

func (r *report) kinds(t *strings.Builder) {
	tried, noticed := map[string]int{}, map[string]int{}
	for _, o := range r.outcomes {
		tried[o.kind]++
		if o.stage != "" {
			noticed[o.kind]++
		}
	}
	fmt.Fprintf(t, "\nBy kind: noticed of tried\n")
	for _, k := range sortedKeys(tried) {
		fmt.Fprintf(t, "  %-26s %4d of %4d\n", k, noticed[k], tried[k])
	}
}

func (r *report) survivors(t *strings.Builder) {
	slices.SortFunc(r.outcomes, func(a, b outcome) int { return comparePlaces(a.point, b.point) })
	heading := "\nNoticed by no stage:\n"
	for _, o := range r.outcomes {
		if o.stage == "" {
			fmt.Fprintf(t, "%s%s\n", heading, o.describe())
			heading = ""
		}
	}
}

// describe says all about a mutation that was tried.
func (o outcome) describe() string {
	return fmt.Sprintf("  %s/%s (%d tests reach it)\n    %s\n      before: %s\n      after:  %s", o.source.name, o.where(), o.reached, o.key, o.before, o.after)
}
