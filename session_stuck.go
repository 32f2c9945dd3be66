package qrtz

import (
	"sync"
	"time"

	"github.com/qrtz-go/qrtz/misfire"
	"github.com/qrtz-go/qrtz/outage"
	"github.com/qrtz-go/qrtz/run"
)

const (
	stuckAgain = time.Hour // after which what is stuck still is told again
	maxStuck   = 1000      // kinds of what is stuck that are told apart; a class is a text that any writer of QRTZ_JOB may choose
)

// stuckLog knows what has been told of rows that cannot run by themselves.
type stuckLog struct {
	mu   sync.Mutex
	told map[[2]string]time.Time // by class and reason
}

// due tells whether to tell of something now: it has not been told within the last hour.
func (l *stuckLog) due(class, why string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, at := range l.told {
		if now.Sub(at) >= stuckAgain {
			delete(l.told, key)
		}
	}
	key := [2]string{class, why}
	if _, told := l.told[key]; told || len(l.told) >= maxStuck {
		return false
	}
	if l.told == nil {
		l.told = map[[2]string]time.Time{}
	}
	l.told[key] = now
	return true
}

// unhandled tells that fires or runs are due of a class that no live node handles.
func (s *session) unhandled(class string) {
	if v := s.member.View(); !v.Handles(class) {
		s.tellStuck([]run.Stuck{{Class: class, Why: misfire.NoHandler, Count: 1}})
	}
}

// tellStuck logs, once an hour, which rows cannot run by themselves and why, and tells the hook.
func (s *session) tellStuck(stuck []run.Stuck) {
	for _, rows := range stuck {
		if !s.stuck.due(rows.Class, rows.Why, time.Now()) {
			continue
		}
		s.logs.own.Warn().Str("class", outage.Clip(rows.Class)).Str("why", rows.Why).Int64("rows", rows.Count).
			Int64("run", rows.RunID).Int64("execute", rows.ExecuteID).Int64("job_id", rows.JobID).Msg("cannot run by itself; told again in an hour")
		if s.hooks.Stuck == nil {
			continue
		}
		s.tell(s.hooks.Stuck, Event{
			App: s.cfg.App, Node: s.member.Self().NodeID, RunID: rows.RunID, JobID: rows.JobID, ScheduleID: rows.ExecuteID, Class: rows.Class,
			Message: rows.Why, Count: rows.Count, At: s.clock.Now(),
		})
	}
}
