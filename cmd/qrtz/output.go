package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/schema"
)

// printf writes for people. If they have stopped reading, that is no error.
func printf(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

// printPart writes a part of a list, and to stderr how to continue if there may be more.
func printPart[T any](cmd *cobra.Command, asJSON bool, part schema.Part[T], head string, line func(T) []any) error {
	if err := printList(cmd.OutOrStdout(), asJSON, part.Rows, head, line); err != nil {
		return err
	}
	if next := part.Next.String(); next != "" {
		printf(cmd.ErrOrStderr(), "There may be more: add --after %s\n", next)
	}
	return nil
}

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
	case schema.Time:
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
func between(from, to schema.Time) string {
	if from.IsZero() || to.IsZero() {
		return ""
	}
	return shortDuration(to.Sub(from.Time))
}

// shortDuration is a duration in at most two units.
func shortDuration(d time.Duration) string {
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

// atMost is a number that was counted up to execute.MaxCount.
func atMost(n int) string {
	if n > execute.MaxCount {
		return fmt.Sprintf("%d+", execute.MaxCount)
	}
	return strconv.Itoa(n)
}

// visible is a text for a terminal, line by line as it is. What could move the cursor, ring, colour, turn the direction of
// writing or hide is shown as Go writes it: \x1b, \a, \u202e. Whatever comes from a table or a server goes through it.
func visible(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && badAt(text, i):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\n' || r == '\t' || strconv.IsGraphic(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// badAt tells whether the byte at i begins no rune.
func badAt(text string, i int) bool {
	_, size := utf8.DecodeRuneInString(text[i:])
	return size == 1
}

// oneLine is visible in one line, its parts a blank apart.
func oneLine(text string) string {
	return visible(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\t' }), " "))
}

// printJSON writes a value as JSON, in which what visible would show is escaped, too: \u202e.
func printJSON(out io.Writer, value any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err
	}
	var b strings.Builder
	for _, r := range text.String() {
		if r == '\n' || strconv.IsGraphic(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
