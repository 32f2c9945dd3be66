package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/qrtz-go/qrtz"
	"github.com/qrtz-go/qrtz/internal/proof/claimtime"
)

// Program is qrtz in one state of the repository.
type Program struct {
	Qrtz      string // the command line
	ClaimTime string // internal/proof/claimtime/cmd
}

// CompareOptions say what to compare, and how often.
type CompareOptions struct {
	Base, Head Program
	Rounds     int       // each measures both programs, in turns; at least one
	Loads      int       // rounds that also look for the load that is kept up with, which takes minutes
	Progress   io.Writer // is told what happens
}

// Comparison is what both programs took, or reached, in each round, for one thing that was measured.
type Comparison struct {
	What       string
	Unit       string
	Base, Head []float64
}

// ratios are those of head to base in each round in which base is not 0, sorted.
func (c Comparison) ratios() []float64 {
	var all []float64
	for i := range min(len(c.Base), len(c.Head)) {
		if c.Base[i] != 0 {
			all = append(all, c.Head[i]/c.Base[i])
		}
	}
	slices.Sort(all)
	return all
}

// comparedSizes are the claims of one round. With a delay of 10 ms they take 10 seconds.
var comparedSizes = []claimtime.Size{{Fires: 1, Claims: 100}, {Fires: 100, Claims: 50}, {Fires: 500, Claims: 30}}

const (
	comparedLoad    = 12_000 // fires a second, the first to be tried
	comparedWorkers = 2000   // of each node
)

// comparison is a comparison under way.
type comparison struct {
	*site
	CompareOptions
	found []Comparison
}

// Compare measures two programs on one server, in turns, so that what disturbs the machine disturbs both.
func Compare(ctx context.Context, o CompareOptions) (found []Comparison, err error) {
	s, err := openSite(ctx, Options{Workers: comparedWorkers, Progress: o.Progress}, quickExtent)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	c := &comparison{site: s, CompareOptions: o}
	for round := range max(o.Rounds, 1) {
		for _, delay := range delays {
			if err := c.both(round, func(p Program, head bool) error { return c.times(ctx, p, head, delay) }); err != nil {
				return c.found, err
			}
		}
		for _, nodes := range []int{1, 3} {
			if round >= o.Loads {
				break
			}
			if err := c.both(round, func(p Program, head bool) error { return c.load(ctx, p, head, nodes) }); err != nil {
				return c.found, err
			}
		}
		s.say("round %d of %d done", round+1, max(o.Rounds, 1))
	}
	return c.found, nil
}

// both measures both programs. Which comes first changes from round to round.
func (c *comparison) both(round int, measure func(p Program, head bool) error) error {
	first := round%2 == 1
	for _, head := range []bool{first, !first} {
		p, name := c.Base, "base"
		if head {
			p, name = c.Head, "head"
		}
		if err := measure(p, head); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// note adds a value of one round.
func (c *comparison) note(head bool, what, unit string, value float64) {
	i := slices.IndexFunc(c.found, func(one Comparison) bool { return one.What == what })
	if i < 0 {
		i, c.found = len(c.found), append(c.found, Comparison{What: what, Unit: unit})
	}
	if head {
		c.found[i].Head = append(c.found[i].Head, value)
	} else {
		c.found[i].Base = append(c.found[i].Base, value)
	}
}

// times has a program time its claims by a line with a delay.
func (c *comparison) times(ctx context.Context, p Program, head bool, delay time.Duration) error {
	sizes, err := json.Marshal(comparedSizes)
	if err != nil {
		return err
	}
	return c.byLine(ctx, delay, func(dsn string) error {
		out, err := output(ctx, dsn, p.ClaimTime, string(sizes))
		if err != nil {
			return err
		}
		var times []claimtime.Time
		if err := json.Unmarshal(out, &times); err != nil {
			return err
		}
		line := "by socket"
		if delay > 0 {
			line = fmt.Sprintf("with %s there and back", delay)
		}
		for _, t := range times {
			c.note(head, fmt.Sprintf("claim of %d, %s: median", t.Fires, line), "ms", t.MedianMs)
			c.note(head, fmt.Sprintf("claim of %d, %s: p99", t.Fires, line), "ms", t.P99Ms)
		}
		return nil
	})
}

// load looks for the load that some nodes of a program keep up with.
func (c *comparison) load(ctx context.Context, p Program, head bool, nodes int) error {
	c.Node = []string{p.Qrtz, "bench", "node"}
	c.migrate = func(ctx context.Context, d *database) error {
		_, err := output(ctx, d.dsn, p.Qrtz, "migrate", "up")
		return err
	}
	found, err := c.search(ctx, nodes, qrtz.HistoryAll, comparedLoad)
	if err != nil {
		return err
	}
	c.note(head, fmt.Sprintf("kept up with by %d nodes", nodes), "fires/s", float64(found.Kept.Offered))
	c.note(head, fmt.Sprintf("most started by %d nodes", nodes), "fires/s", found.Most.Fires)
	return nil
}

// output is what a program prints, given a database.
func output(ctx context.Context, dsn, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), DSNEnv+"="+dsn)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, complaint.String())
	}
	return out, nil
}

// PrintComparison writes a table for a terminal: the medians of all rounds, the median of the rounds' ratios and their range.
func PrintComparison(out io.Writer, found []Comparison) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	printf(w, "what\tbase\thead\t\thead/base\tfrom\tto\trounds\n")
	for _, c := range found {
		if len(c.Base) == 0 || len(c.Head) == 0 {
			continue // a round was interrupted
		}
		printf(w, "%s\t%s\t%s\t%s", c.What, figure(median(c.Base)), figure(median(c.Head)), c.Unit)
		if r := c.ratios(); len(r) > 0 {
			printf(w, "\t%.2f\t%.2f\t%.2f\t%d", median(r), r[0], r[len(r)-1], len(r))
		}
		printf(w, "\n")
	}
	return w.Flush()
}
