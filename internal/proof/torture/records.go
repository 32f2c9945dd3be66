package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/internal/proof/check"
)

// records are the handlers' own accounts, read from the files that the workers write.
type records struct {
	dir string

	mu      sync.Mutex
	read    map[string]int64 // how much of each file has been
	all     []*account       // in order of reading: of each process, in order of start
	pending map[startKey]*account
	heard   []*saying
}

// saying is what a process has said of its place in the cluster.
type saying struct {
	what, life string
	at         time.Time
}

// startKey names a start of a handler.
type startKey struct {
	life  string // of a process
	start int64
}

// account is what a handler says of itself.
type account struct {
	entry
	app, node, life string
	ended, ok       bool
	loaded, saved   int // by a stepping run
	told            int // one more than the percentage that it has told last
	how             ending
	endedAt         time.Time
}

func (a *account) startedAt() time.Time { return time.UnixMicro(a.At) }
func (a *account) fire() time.Time      { return time.UnixMilli(a.Fire) }

func (a *account) String() string {
	end := "never ended"
	if a.ended {
		end = fmt.Sprintf("ended at %s, ok: %t %s", clock(a.endedAt), a.ok, a.how.Cause)
	}
	return fmt.Sprintf("by its own account: run %d of execute %d, fire %s, attempt %d, fence %d, in %s, started at %s, %s",
		a.Run, a.Execute, clock(a.fire()), a.Attempt, a.Fence, a.life, clock(a.startedAt()), end)
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

func newRecords(dir string) *records {
	return &records{dir: dir, read: map[string]int64{}, pending: map[startKey]*account{}}
}

// update reads what has been added, and returns all accounts.
func (r *records) update() ([]*account, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	files, err := filepath.Glob(filepath.Join(r.dir, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if err := r.readOn(file); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return r.all[:len(r.all):len(r.all)], nil
}

func (r *records) readOn(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(r.read[file], io.SeekStart); err != nil {
		return err
	}
	life := strings.TrimSuffix(filepath.Base(file), ".jsonl")
	for in := bufio.NewReader(f); ; {
		text, err := in.ReadBytes('\n')
		if err != nil {
			return nil // the end; half a line is read again when it is whole
		}
		r.read[file] += int64(len(text))
		var e entry
		if err := json.Unmarshal(bytes.TrimSpace(text), &e); err != nil {
			return err
		}
		r.add(life, e)
	}
}

func (r *records) add(life string, e entry) {
	if e.Said != "" {
		r.heard = append(r.heard, &saying{e.Said, life, time.UnixMicro(e.At)})
		return
	}
	if e.Of != 0 {
		r.note(life, e)
		return
	}
	key := startKey{life, e.Start}
	if e.End {
		if a := r.pending[key]; a != nil {
			a.ended, a.ok, a.endedAt, a.how = true, e.Ok, time.UnixMicro(e.At), e.ending
			delete(r.pending, key)
		}
		return
	}
	app, place := placeOf(life)
	a := &account{entry: e, app: app, node: place, life: life}
	if e.Node != "" {
		a.node = e.Node
	}
	r.all = append(r.all, a)
	r.pending[key] = a
}

// note takes how far a run is by its own account.
func (r *records) note(life string, e entry) {
	for _, a := range r.pending {
		if a.life == life && a.Run == e.Of {
			a.loaded, a.saved, a.told = max(a.loaded, e.Loaded), max(a.saved, e.Saved), max(a.told, e.Told)
		}
	}
}

// said is all that processes have said.
func (r *records) said() ([]*saying, error) {
	if _, err := r.update(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heard[:len(r.heard):len(r.heard)], nil
}

// placeOf is the app and the place of a life: app-place-life.
func placeOf(life string) (app, place string) {
	parts := strings.Split(life, "-")
	return parts[0], parts[1]
}

// starts are the accounts of an app, as package check wants them. Of a handler that stood still with
// its process it cannot be said when it had to end.
func (t *torture) starts(app string) ([]check.Start, error) {
	all, err := t.records.update()
	if err != nil {
		return nil, err
	}
	var starts []check.Start
	for _, a := range all {
		if a.app != app || t.poisons.has(a.Execute) {
			continue
		}
		s := check.Start{
			ExecuteID: a.Execute, FireTime: a.fire(), StartedAt: t.clock.atMost(a.startedAt()), Attempt: a.Attempt, Node: a.node,
		}
		if a.ended && !t.processOf(a.life).stoodStill(a.startedAt(), a.endedAt) {
			s.FinishedAt = later(t.clock.atLeast(a.endedAt), s.StartedAt)
		}
		starts = append(starts, s)
	}
	return starts, nil
}

// thawed is when the process of a handler last continued after standing still, before the handler ended.
func (t *torture) thawed(a *account) time.Time { return t.processOf(a.life).thawed(a.endedAt) }

// processOf is the process that had a life.
func (t *torture) processOf(life string) *process {
	app, place := placeOf(life)
	for _, p := range slices.Concat(t.processes, t.calm, t.exact, t.guests, t.twins) {
		if p.app == app && p.id == place {
			return p
		}
	}
	panic("account of an unknown process " + life)
}
