package qrtz

import (
	"time"

	"github.com/qrtz-go/qrtz/run"
)

// againMessage is the message of a run that the database gave out a second time.
const againMessage = "not started: the database lost the claim of this fire, after which this node had begun it already " +
	"(a restore, a fail-over to a replica that lagged, or commits that were not durable)"

// fresh returns those of the runs that were claimed that this process has not begun before. The others, which the database
// gives out again because it has lost what it had committed, end as LOST; nothing is tried again.
func (s *session) fresh(claimed []run.Run) []run.Run {
	start, again := s.begun.Check(claimed, time.Now())
	if len(again) == 0 {
		return start
	}
	now := s.clock.Now()
	first, last := again[0].FireTime, again[0].FireTime
	for _, r := range again {
		if r.FireTime.Before(first) {
			first = r.FireTime
		}
		if r.FireTime.After(last) {
			last = r.FireTime
		}
		s.results.Add(run.Result{Run: r, State: run.Lost, Started: now, Finished: now, Message: againMessage, Progress: -1})
		if s.hooks.Lost != nil {
			e := s.event(r, Lost)
			e.Message = againMessage
			s.tell(s.hooks.Lost, e)
		}
	}
	s.logs.own.Error().Int("runs", len(again)).Time("first_fire", first).Time("last_fire", last).
		Msg("the database has lost commits: runs that this node has begun already were given out again, and are not started; what they did stands")
	return start
}
