package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// timeline is everything that was done to the cluster, with its time.
type timeline struct {
	out io.Writer

	mu      sync.Mutex
	start   time.Time
	entries []entryAt
}

type entryAt struct {
	at   time.Time
	text string
}

func newTimeline(out io.Writer) *timeline { return &timeline{out: out, start: time.Now()} }

// note prints an entry and keeps it.
func (t *timeline) note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := entryAt{time.Now(), fmt.Sprintf(format, args...)}
	t.entries = append(t.entries, e)
	_, _ = fmt.Fprintln(t.out, t.line(e))
}

func (t *timeline) line(e entryAt) string {
	return fmt.Sprintf("%s %+8.2fs  %s", e.at.UTC().Format("15:04:05.000"), e.at.Sub(t.start).Seconds(), e.text)
}

// around is what happened from before to after a time.
func (t *timeline) around(at time.Time, before, after time.Duration) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, e := range t.entries {
		if e.at.After(at.Add(-before)) && e.at.Before(at.Add(after)) {
			fmt.Fprintln(&b, "   ", t.line(e))
		}
	}
	return b.String()
}
