package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const switchboardPath = "github.com/qrtz-go/qrtz/internal/proof/mutants/switchboard"

// rewrite writes a file with all its points in it. Its lines stay where they are.
func (b *board) rewrite(f *file) []byte {
	var edits []edit
	for _, s := range b.sites[f] {
		left := slices.DeleteFunc(slices.Clone(s.points), func(p *point) bool { return p.dropped })
		if len(s.points) == 0 || len(left) > 0 {
			edits = append(edits, s.edits(left)...)
		}
	}
	if len(edits) == 0 {
		return f.text
	}
	end := b.fset.Position(f.ast.Name.End()).Offset
	edits = append(edits, edit{from: end, to: end, text: "; import mutant " + strconv.Quote(switchboardPath)})
	return apply(f.text, edits)
}

// change is what one edit does at one place.
type change struct {
	at, skip int
	text     string
	order    [2]int // of several at one place: what ends there, the inner first; what begins there, the outer first; what replaces
}

func apply(text []byte, edits []edit) []byte {
	var changes []change
	for _, e := range edits {
		if e.open == "" && e.closing == "" {
			changes = append(changes, change{e.from, e.to - e.from, e.text, [2]int{2, e.seq}})
			continue
		}
		changes = append(changes, change{e.to, 0, e.closing, [2]int{0, -e.seq}}, change{e.from, 0, e.open, [2]int{1, e.seq}})
	}
	slices.SortStableFunc(changes, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order[0], b.order[0]), cmp.Compare(a.order[1], b.order[1]))
	})
	var out []byte
	from := 0
	for _, c := range changes {
		out = append(out, text[from:c.at]...)
		out = append(out, c.text...)
		from = c.at + c.skip
	}
	return append(out, text[from:]...)
}

// overlay writes all files that are rewritten to a directory, and says so in the way of go build -overlay.
func (b *board) overlay(dir string, sources []*source) (string, error) {
	replace := map[string]string{}
	for _, s := range sources {
		for _, f := range s.files {
			if len(b.sites[f]) == 0 {
				continue
			}
			path := filepath.Join(dir, s.name+"_"+filepath.Base(f.path))
			if err := os.WriteFile(path, b.rewrite(f), 0o600); err != nil {
				return "", err
			}
			replace[f.path] = path
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

var complaint = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):\d+: (.*)$`)

// compile has the compiler look at all packages, drops the points that it refuses, and returns the overlay that it takes.
func (b *board) compile(ctx context.Context, module, dir string, sources []*source) (overlay string, err error) {
	var paths []string
	for _, s := range sources {
		paths = append(paths, s.path)
	}
	for range 20 {
		if overlay, err = b.overlay(dir, sources); err != nil {
			return "", err
		}
		cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-gcflags=-e", "-overlay", overlay}, paths...)...)
		cmd.Dir = module
		out, err := cmd.CombinedOutput()
		if err == nil {
			return overlay, nil
		}
		if b.dropRefused(module, sources, string(out)) == 0 {
			return "", fmt.Errorf("go build: %w\n%s", err, out)
		}
	}
	return "", fmt.Errorf("the rewritten packages do not compile")
}

// dropRefused drops the points of all lines that a compiler complains about, and returns how many.
func (b *board) dropRefused(module string, sources []*source, out string) (n int) {
	for _, m := range complaint.FindAllStringSubmatch(out, -1) {
		path := m[1]
		if !filepath.IsAbs(path) {
			path = filepath.Join(module, path)
		}
		line, _ := strconv.Atoi(m[2])
		for _, s := range sources {
			for _, f := range s.files {
				if f.path == path || strings.HasSuffix(path, "/"+s.name+"_"+filepath.Base(f.path)) {
					n += b.dropAt(f, line)
				}
			}
		}
	}
	return n
}

func (b *board) dropAt(f *file, line int) (n int) {
	for _, p := range b.points {
		if p.file == f && p.line == line && !p.dropped {
			p.dropped = true
			n++
		}
	}
	return n
}
