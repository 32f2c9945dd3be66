package qrtz

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/outage"
	"github.com/qrtz-go/qrtz/run"
)

// attendEvery is how often what long runs have to say is written, and requests to cancel them are looked for.
const attendEvery = 500 * time.Millisecond

// active is a run under way in this process.
type active struct {
	session   *session
	ctx       context.Context //nolint:containedctx // of the handler, as a request has its own
	run       run.Run
	startedAt time.Time
	cancel    context.CancelCauseFunc

	mu                sync.Mutex
	progress          int // in percent; below 0 until the handler says
	message           string
	unsaid            bool    // the row does not say it yet
	ended             bool    // the handler has returned
	saved             int64   // bytes of its checkpoint, at the most; 0 if it has none
	within, completed *sql.Tx // in which the handler has called CompleteIn last, and in which that worked
}

func (a *active) say(change func(*active)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(a)
	a.unsaid = true
}

// said is what the handler has said so far.
func (a *active) said() (progress int, message string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.progress, a.message
}

// news is what the row does not say yet, if there is anything.
func (a *active) news() (run.Underway, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.unsaid || a.within != nil && !txEnded(a.within) { // the handler's transaction may hold the row
		return run.Underway{}, false
	}
	a.unsaid = false
	return run.Underway{Run: a.run, Started: a.startedAt, Progress: a.progress, Message: a.message}, true
}

// actives are the runs under way in this process that have a row.
type actives struct {
	mu   sync.Mutex
	byID map[int64]*active
}

func (s *actives) add(a *active) {
	if a.run.ID == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byID[a.run.ID] = a
}

func (s *actives) remove(a *active) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID[a.run.ID] == a { // not if the row has been claimed again meanwhile
		delete(s.byID, a.run.ID)
	}
}

// cancel cancels a run if it is under way in this process.
func (s *actives) cancel(runID int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.byID[runID]; a != nil {
		a.cancel(ErrCancelled)
	}
}

// olderThan are the runs that started before a time: most runs never get that old, and cost nothing here.
func (s *actives) olderThan(t time.Time) map[int64]*active {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := map[int64]*active{}
	for id, a := range s.byID {
		if a.startedAt.Before(t) {
			old[id] = a
		}
	}
	return old
}

// attend writes what the longer runs have to say, and cancels those that a person or a program wants cancelled.
func (s *session) attend(ctx context.Context) error {
	old := s.active.olderThan(s.clock.Now().Add(-attendEvery))
	if len(old) == 0 {
		return outage.ErrIdle
	}
	var news []run.Underway
	var ids []int64
	for id, a := range old {
		ids = append(ids, id)
		if u, ok := a.news(); ok {
			news = append(news, u)
		}
	}
	attended, err := s.runs.Attend(ctx, news, ids)
	for _, id := range attended.Unsaid {
		old[id].say(func(*active) {}) // next time
	}
	for _, id := range attended.Cancel {
		old[id].cancel(ErrCancelled)
	}
	return err
}
