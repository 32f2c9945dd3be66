package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qrtz-go/qrtz/cron"
)

// maxNext is how many fires `next` lists at most.
const maxNext = 1000

type nextOptions struct {
	expression, zone, afterText string
	n                           int
	quartz, asJSON              bool

	after   time.Time
	preview preview
}

func newNext() *cobra.Command {
	return command(&cobra.Command{
		Use:   "next EXPRESSION",
		Short: "Show when a cron expression fires",
		Long: `Show when a cron expression fires, in its time zone and in UTC, and what changes of the clock do to it.
The expression is Quartz's: seconds first, six or seven fields.`,
		Example: "  qrtz next '0 0 2 ? * MON-FRI' --tz Asia/Shanghai -n 5\n  qrtz next '0 30 2 * * ?' --tz Europe/Berlin --after 2027-03-27",
	}, &nextOptions{})
}

func (o *nextOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.zone, "tz", "UTC", "time zone, for example Asia/Shanghai")
	f.IntVarP(&o.n, "number", "n", 5, fmt.Sprintf("how many fires, at most %d", maxNext))
	f.StringVar(&o.afterText, "after", "", "fires after this time, for example 2027-03-27T12:00 in the zone (default now)")
	f.BoolVar(&o.quartz, "quartz-dst", false, "with Quartz's own rule for daylight saving")
	jsonFlag(f, &o.asJSON)
}

func (o *nextOptions) validate(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one expression, in quotes, got %d arguments; for example qrtz next '0 0 2 ? * MON-FRI'", len(args))
	}
	o.expression = args[0]
	if o.n < 1 || o.n > maxNext {
		return fmt.Errorf("-n %d: want 1 to %d", o.n, maxNext)
	}
	loc, err := cron.LoadLocation(o.zone)
	if err != nil {
		return fmt.Errorf("--tz: %w", err)
	}
	if o.after, err = parseAfter(o.afterText, loc); err != nil {
		return fmt.Errorf("--after: %w", err)
	}
	if o.preview, err = newPreview(o.expression, loc, o.quartz); err != nil {
		return pointed(o.expression, err)
	}
	return nil
}

func (o *nextOptions) run(cmd *cobra.Command) error {
	p, after, lines := o.preview, o.after, []fireLine{}
	for t := p.schedule.Next(after); !t.IsZero() && len(lines) < o.n; t = p.schedule.Next(t) {
		lines = append(lines, fireLine{Local: t.Format(time.RFC3339), UTC: t.UTC().Format(time.RFC3339), Note: p.note(after, t), at: t})
		after = t
	}
	if o.asJSON {
		return printJSON(cmd.OutOrStdout(), struct {
			Expression  string     `json:"expression"`
			Zone        string     `json:"zone"`
			Description string     `json:"description"`
			Fires       []fireLine `json:"fires"`
		}{p.schedule.String(), o.zone, p.schedule.Describe(), lines})
	}
	o.print(cmd.OutOrStdout(), lines, after)
	return nil
}

// fireLine is one fire as it is shown.
type fireLine struct {
	Local string `json:"local"`
	UTC   string `json:"utc"`
	Note  string `json:"note,omitempty"`

	at time.Time
}

func (o *nextOptions) print(out io.Writer, lines []fireLine, after time.Time) {
	printf(out, "%s   %s, %s\n\n", o.preview.schedule, o.preview.schedule.Describe(), o.zone)
	for _, l := range lines {
		note := ""
		if l.Note != "" {
			note = "   " + l.Note
		}
		printf(out, "%-42s %s%s\n", l.at.Format("Mon 2006-01-02 15:04:05 MST (-07:00)"), l.at.UTC().Format("2006-01-02 15:04:05Z"), note)
	}
	if len(lines) < o.n {
		printf(out, "It never fires after %s.\n", after.Format(time.RFC3339))
	}
}

// parseAfter reads a time in the zone, or with an offset of its own; empty is now.
func parseAfter(text string, loc *time.Location) (time.Time, error) {
	if text == "" {
		return time.Now(), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, loc); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time: want for example 2027-03-27, 2027-03-27T12:00 or 2027-03-27T12:00:00+08:00", text)
}

// pointed adds a line that points at what is wrong with the expression.
func pointed(expression string, err error) error {
	var p *cron.ParseError
	if !errors.As(err, &p) || p.Pos < 1 {
		return err
	}
	return fmt.Errorf("%w\n  %s\n  %s^", err, expression, strings.Repeat(" ", p.Pos-1))
}

// preview is a schedule with what it takes to explain its fires.
type preview struct {
	schedule *cron.Schedule
	other    *cron.Schedule // under the other rule for daylight saving
	ruleOf   string         // whose rule that is
	parse    func(*time.Location) (*cron.Schedule, error)
}

func newPreview(expression string, loc *time.Location, quartz bool) (preview, error) {
	own, err := cron.Parse(expression, loc)
	if err != nil {
		return preview{}, err
	}
	quartzs, err := cron.Parse(expression, loc, cron.QuartzDST())
	if err != nil {
		return preview{}, err
	}
	parse := func(l *time.Location) (*cron.Schedule, error) { return cron.Parse(expression, l) }
	if quartz {
		return preview{quartzs, own, "qrtz's own", parse}, nil
	}
	return preview{own, quartzs, "Quartz's", parse}, nil
}

// note says what a change of the clock does to the fire at t, the first after a time.
func (p preview) note(after, t time.Time) string {
	var notes []string
	if gap := p.movedBy(t); gap != "" {
		notes = append(notes, gap)
	}
	if pass := repeated(t); pass != "" {
		notes = append(notes, pass)
	}
	if o := p.other.Next(after); !o.Equal(t) {
		text := "there would be none"
		if !o.IsZero() {
			text = o.Format("2006-01-02 15:04:05 MST")
		}
		notes = append(notes, "by "+p.ruleOf+" rule: "+text)
	}
	return strings.Join(notes, "; ")
}

// movedBy tells that t is the first instant after a gap and stands for a time in it: without a gap the
// expression would not fire at what the clock shows.
func (p preview) movedBy(t time.Time) string {
	start, _ := t.ZoneBounds()
	if start.IsZero() || !start.Equal(t) {
		return ""
	}
	_, before := t.Add(-time.Second).Zone()
	name, now := t.Zone()
	fixed, err := p.parse(time.FixedZone(name, now))
	if now <= before || err != nil || fixed.Next(t.Add(-time.Second)).Equal(t) {
		return ""
	}
	return fmt.Sprintf("moved: the clock jumps from %s to %s", t.In(time.FixedZone("", before)).Format("15:04"), t.Format("15:04"))
}

// repeated tells in which pass of an hour that the clock shows twice t lies.
func repeated(t time.Time) string {
	_, offset := t.Zone()
	start, end := t.ZoneBounds()
	if !end.IsZero() {
		_, after := end.Zone()
		if back := time.Duration(offset-after) * time.Second; back > 0 && !t.Before(end.Add(-back)) {
			return "first pass: the clock shows this time twice"
		}
	}
	if !start.IsZero() {
		_, before := start.Add(-time.Second).Zone()
		if back := time.Duration(before-offset) * time.Second; back > 0 && t.Before(start.Add(back)) {
			return "second pass: the clock shows this time twice"
		}
	}
	return ""
}
