package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/qrtz-go/qrtz/internal/admin"
	"github.com/qrtz-go/qrtz/schema"
)

// onTables runs a command on tables that are up to date. On the private server, where nobody else would, it makes them so.
func (g *global) onTables(cmd *cobra.Command, run func(ctx context.Context, d *database, s *admin.Store) error) error {
	ctx := cmd.Context()
	return g.with(ctx, func(d *database) error {
		db, err := d.pool(2)
		if err != nil {
			return err
		}
		if d.private {
			_, err = schema.Up(ctx, db, d.prefix)
		} else {
			err = schema.Check(ctx, db, d.prefix)
		}
		if err != nil {
			return err
		}
		return run(ctx, d, admin.New(db, d.prefix))
	})
}

// listing are the flags that all lists share.
type listing struct {
	app, state string
	limit      int
	asJSON     bool
}

func (l *listing) flags(cmd *cobra.Command, what string, states ...string) {
	cmd.Flags().StringVar(&l.app, "app", "", "only "+what+" of this app")
	cmd.Flags().BoolVar(&l.asJSON, "json", false, "as JSON")
	if len(states) > 0 {
		cmd.Flags().StringVar(&l.state, "state", "", "only those in this state: "+strings.Join(states, ", "))
	}
}

func (l *listing) limitFlag(cmd *cobra.Command, limit int) {
	cmd.Flags().IntVar(&l.limit, "limit", limit, "how many at most")
}

// check makes the state upper case and refuses one that there is not, and a limit that makes no sense.
func (l *listing) check(cmd *cobra.Command, states ...string) error {
	if cmd.Flags().Lookup("limit") != nil && (l.limit < 1 || l.limit > 1_000_000) {
		return usagef(cmd, "--limit %d: want 1 to 1000000", l.limit)
	}
	return checkState(cmd, &l.state, states)
}

func checkState(cmd *cobra.Command, state *string, states []string) error {
	if *state == "" {
		return nil
	}
	for _, s := range states {
		if strings.EqualFold(s, *state) {
			*state = s
			return nil
		}
	}
	return usagef(cmd, "--state %q: want one of %s", *state, strings.Join(states, ", "))
}

var (
	scheduleStates = []string{"INIT", "EXECUTING", "PAUSED", "COMPLETE", "ERROR"}
	endStates      = []string{"SUCCEEDED", "FAILED", "LOST", "CANCELLED", "SKIPPED"}
	runStates      = append([]string{"PENDING", "RUNNING"}, endStates...)
)

// printList writes rows as JSON, or as a table with a line per row.
func printList[T any](out io.Writer, asJSON bool, rows []T, head string, line func(T) []any) error {
	if asJSON {
		return printJSON(out, rows)
	}
	if len(rows) == 0 {
		printf(out, "none\n")
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	printf(w, "%s\n", strings.Join(strings.Fields(head), "\t"))
	for _, r := range rows {
		cells := line(r)
		texts := make([]string, len(cells))
		for i, c := range cells {
			texts[i] = cell(c)
		}
		printf(w, "%s\n", strings.TrimRight(strings.Join(texts, "\t"), "\t"))
	}
	return w.Flush()
}

// fact is a line of what `show` shows.
type fact struct {
	name  string
	value any
}

// printFacts writes what is known of one thing, and leaves out what is not.
func printFacts(out io.Writer, facts ...fact) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, f := range facts {
		if text := cell(f.value); text != "-" {
			printf(w, "%s\t%s\n", f.name, text)
		}
	}
	return w.Flush()
}

// cell is a value for people, in one line; what there is not is "-".
func cell(value any) string {
	text := ""
	switch v := value.(type) {
	case admin.Time:
		if !v.IsZero() {
			text = v.Local().Format("2006-01-02 15:04:05.000")
		}
	case *string:
		if v != nil {
			text = *v
		}
	case *int64:
		if v != nil {
			text = strconv.FormatInt(*v, 10)
		}
	case *int:
		if v != nil {
			text = strconv.Itoa(*v)
		}
	case bool:
		text = map[bool]string{true: "yes", false: "no"}[v]
	default:
		text = fmt.Sprint(v)
	}
	if text = oneLine(text); text == "" {
		return "-"
	}
	return text
}

// short cuts a text to n runes, its first line only.
func short(text *string, n int) string {
	if text == nil {
		return ""
	}
	line, _, _ := strings.Cut(*text, "\n")
	if utf8.RuneCountInString(line) <= n {
		return line
	}
	return string([]rune(line)[:n-1]) + "…"
}

// between is the time from one point to another, if both are known.
func between(from, to admin.Time) string {
	if from.IsZero() || to.IsZero() {
		return ""
	}
	return shortDuration(to.Sub(from.Time))
}

// shortDuration is a duration in at most two units.
func shortDuration(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 10*time.Second && d > -10*time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*day:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	return fmt.Sprintf("%.1f days", d.Hours()/24)
}

// atMost is a number that was counted up to admin.MaxCount.
func atMost(n int) string {
	if n > admin.MaxCount {
		return fmt.Sprintf("%d+", admin.MaxCount)
	}
	return strconv.Itoa(n)
}

// oneArg takes exactly one argument.
func oneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usagef(cmd, "want %s, got %d arguments", what, len(args))
		}
		return nil
	}
}

// idArg takes exactly one argument, a positive number.
func idArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := oneArg(what)(cmd, args); err != nil {
			return err
		}
		if id, err := strconv.ParseInt(args[0], 10, 64); err != nil || id < 1 {
			return usagef(cmd, "%q: want %s, a number", args[0], what)
		}
		return nil
	}
}

// argID is the number that idArg has let pass.
func argID(args []string) int64 {
	id, _ := strconv.ParseInt(args[0], 10, 64)
	return id
}
