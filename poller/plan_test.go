package poller

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/execute"
	"github.com/qrtz-go/qrtz/run"
)

var base = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func sec(n int) time.Time { return base.Add(time.Duration(n) * time.Second) }

func planned(id int64, s int) *entry {
	return &entry{execute: &execute.Execute{ID: id, Next: sec(s)}, at: sec(s)}
}

func ids(batch []*entry) (all []int64) {
	for _, e := range batch {
		all = append(all, e.execute.ID)
	}
	return all
}

func TestTakeIsInOrderOfTimeThenID(t *testing.T) {
	p := newPlan()
	p.add([]*entry{planned(4, 2), planned(3, 1), planned(2, 2), planned(1, 3)}, p.mark())
	require.Equal(t, []int64{3, 2}, ids(p.takeEarly(sec(2), 2)))
	require.Equal(t, []int64{4}, ids(p.takeEarly(sec(2), 10)))
	require.Empty(t, p.takeEarly(sec(2), 10))
	at, ok := p.earliestOfAll()
	require.True(t, ok)
	require.Equal(t, sec(3), at)
	require.Empty(t, p.takeEarly(sec(3), 0))
}

func TestARowReadBeforeOurClaimIsStale(t *testing.T) {
	p := newPlan()
	p.add([]*entry{planned(1, 1), planned(2, 1)}, p.mark())
	mark := p.mark() // a poll reads now ...
	batch := p.takeEarly(sec(1), 10)
	p.add([]*entry{planned(1, 1)}, mark)
	require.Empty(t, p.takeEarly(sec(100), 10), "its claim is under way")
	p.putBack(batch[0], &execute.Execute{ID: 1, Next: sec(5)})
	p.putBack(batch[1], nil)
	p.replace([]*entry{planned(1, 1)}, mark) // ... and comes too late
	at, _ := p.earliestOfAll()
	require.Equal(t, sec(5), at, "what our claim left stays")
	p.replace(nil, mark)
	require.Equal(t, []int64{1}, ids(p.takeEarly(sec(100), 10)), "and is not forgotten either")
}

// The answer of a poll may come late: after a claim whose next fire lies beyond the window, which is therefore forgotten.
func TestARowReadBeforeAClaimThatWasForgottenIsStale(t *testing.T) {
	p := newPlan()
	p.add([]*entry{planned(1, 1)}, p.mark())
	mark := p.mark() // a poll reads now ...
	p.putBack(p.takeEarly(sec(1), 1)[0], nil)
	p.replace([]*entry{planned(1, 1)}, mark) // ... and comes too late
	require.Empty(t, p.takeEarly(sec(100), 10), "its fire has been claimed")
	p.add([]*entry{planned(1, 9)}, p.mark())
	require.Equal(t, []int64{1}, ids(p.takeEarly(sec(100), 10)), "what is read from now on is true")
}

func TestForgetLeavesClaimsUnderWayAlone(t *testing.T) {
	p := newPlan()
	p.add([]*entry{planned(1, 1), planned(2, 2)}, p.mark())
	mark := p.mark()
	taken := p.takeEarly(sec(1), 1)
	p.forget([]int64{1, 2, 3})
	p.add([]*entry{planned(2, 2)}, mark)
	require.Empty(t, p.takeEarly(sec(100), 10))
	p.putBack(taken[0], &execute.Execute{ID: 1, Next: sec(5)})
	require.Equal(t, []int64{1}, ids(p.takeEarly(sec(100), 10)))
}

func TestReplaceForgetsWhatHasMovedOn(t *testing.T) {
	p := newPlan()
	p.add([]*entry{planned(1, 1), planned(2, 2), planned(3, 3)}, p.mark())
	taken := p.takeEarly(sec(1), 1)
	p.replace([]*entry{planned(3, 4)}, p.mark())
	p.putBack(taken[0], &execute.Execute{ID: 1, Next: sec(9)})
	require.Equal(t, []int64{3, 1}, ids(p.takeEarly(sec(100), 10)))
}

// A sweep plans what is new while a poll that does not know it yet is under way.
func TestAPollDoesNotForgetWhatASweepHasJustPlanned(t *testing.T) {
	p := newPlan()
	poll := p.mark()
	p.add([]*entry{planned(1, 1)}, p.mark())
	p.replace(nil, poll)
	require.Equal(t, []int64{1}, ids(p.takeEarly(sec(1), 1)))
}

func TestClearKeepsWhatIsUnderWay(t *testing.T) {
	p := newPlan()
	p.add([]*entry{planned(1, 1), planned(2, 2)}, p.mark())
	taken := p.takeEarly(sec(1), 1)
	p.clear()
	_, ok := p.earliestOfAll()
	require.False(t, ok)
	p.add([]*entry{planned(1, 1), planned(2, 2)}, p.mark())
	require.Equal(t, []int64{2}, ids(p.takeEarly(sec(100), 10)))
	p.putBack(taken[0], nil)
	p.add([]*entry{planned(1, 1)}, p.mark())
	require.Equal(t, []int64{1}, ids(p.takeEarly(sec(100), 10)))
}

func TestCrowded(t *testing.T) {
	p := newPlan()
	for i := range int64(500) {
		p.add([]*entry{planned(i, int(i*7919%500))}, p.mark())
	}
	for _, n := range []int{1, 2, 100, 499, 500} {
		require.True(t, p.crowded(sec(n-1), n), n)
		require.False(t, p.crowded(sec(n-2), n), n)
	}
	require.False(t, newPlan().crowded(sec(1000), 1))
}

// model is the plan as its comments describe it, without a heap.
type model struct {
	entries map[int64]*modelEntry
	gone    map[int64]uint64
	changes uint64
}

type modelEntry struct {
	at       time.Time
	underWay bool
	touched  uint64
}

func (m *model) put(id int64, at time.Time, asOf uint64) {
	if old := m.entries[id]; old != nil && (old.underWay || old.touched > asOf) {
		return
	}
	if m.gone[id] > asOf {
		return
	}
	m.entries[id] = &modelEntry{at: at, touched: m.changes}
}

func (m *model) take(until time.Time, n int) (batch []int64) {
	for id, e := range m.entries {
		if !e.underWay && !e.at.After(until) {
			batch = append(batch, id)
		}
	}
	slices.SortFunc(batch, func(a, b int64) int { return cmp.Or(m.entries[a].at.Compare(m.entries[b].at), cmp.Compare(a, b)) })
	batch = batch[:min(n, len(batch))]
	for _, id := range batch {
		m.entries[id].underWay = true
	}
	return batch
}

func (m *model) due(until time.Time) (n int) {
	for _, e := range m.entries {
		if !e.underWay && !e.at.After(until) {
			n++
		}
	}
	return n
}

func TestThePlanDoesAsItsModel(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		p, m := newPlan(), &model{entries: map[int64]*modelEntry{}, gone: map[int64]uint64{}}
		marks := []uint64{0}
		var taken []*entry
		for range 300 {
			asOf := marks[r.IntN(len(marks))]
			var read []*entry
			for id := range int64(12) {
				if r.IntN(3) == 0 {
					read = append(read, planned(id, r.IntN(20)))
				}
			}
			until, n := sec(r.IntN(20)), r.IntN(5)
			switch r.IntN(7) {
			case 0:
				require.Equal(t, m.changes, p.mark())
				marks = append(marks, m.changes)
			case 1:
				p.add(read, asOf)
				m.changes++
				for _, e := range read {
					m.put(e.execute.ID, e.at, asOf)
				}
			case 2:
				p.replace(read, asOf)
				for _, e := range read {
					m.put(e.execute.ID, e.at, asOf)
				}
				for id, e := range m.entries {
					if !slices.Contains(ids(read), id) && !e.underWay && e.touched <= asOf {
						delete(m.entries, id)
					}
				}
			case 3:
				batch := p.takeEarly(until, n)
				require.True(t, slices.Equal(m.take(until, n), ids(batch)), "seed %d", seed)
				taken = append(taken, batch...)
			case 4, 5:
				if len(taken) == 0 {
					continue
				}
				e := taken[0]
				taken = taken[1:]
				id := e.execute.ID
				m.changes++
				if r.IntN(2) == 0 {
					p.putBack(e, nil)
					delete(m.entries, id)
					m.gone[id] = m.changes
				} else {
					p.putBack(e, &execute.Execute{ID: id, Next: until})
					m.entries[id] = &modelEntry{at: until, touched: m.changes}
				}
			case 6:
				if r.IntN(5) == 0 {
					p.clear()
					for id, e := range m.entries {
						if !e.underWay {
							delete(m.entries, id)
						}
					}
				}
			}
			require.Equal(t, m.due(until) >= n, p.crowded(until, n), "seed %d", seed)
			require.Len(t, p.entries, len(m.entries), "seed %d", seed)
		}
	}
}

// takeEarly takes what may be claimed early, as most may.
func (p *plan) takeEarly(until time.Time, n int) []*entry { return p.takeAt(time.Time{}, until, n) }

// takeAt takes what is due, of any class.
func (p *plan) takeAt(now, until time.Time, n int) []*entry {
	return p.take(due{now: now, until: until}, n, func(string) bool { return true })
}

// earliestOfAll is when the next entry is due, whichever it is.
func (p *plan) earliestOfAll() (time.Time, bool) {
	early, exact := p.earliest(func(string) bool { return true })
	if early.IsZero() || !exact.IsZero() && exact.Before(early) {
		early = exact
	}
	return early, !early.IsZero()
}

func TestWhatMustBeAloneIsNotTakenEarly(t *testing.T) {
	p := newPlan()
	alone := planned(1, 2)
	alone.execute.Exclusive = true
	p.add([]*entry{alone, planned(2, 3)}, p.mark())
	early, exact := p.earliest(func(string) bool { return true })
	require.Equal(t, []time.Time{sec(3), sec(2)}, []time.Time{early, exact})
	require.Equal(t, []int64{2}, ids(p.takeAt(sec(1), sec(9), 10)))
	require.Equal(t, []int64{1}, ids(p.takeAt(sec(2), sec(9), 10)))
	p.putBack(alone, nil)
	require.Empty(t, p.takeAt(sec(9), sec(9), 10))
}

func TestWhatIsDueTogetherGoesByPriority(t *testing.T) {
	p := newPlan()
	for id, priority := range map[int64]run.Priority{1: run.PriorityLow, 2: run.PriorityNormal, 3: run.PriorityHigh, 4: run.PriorityLow, 5: run.PriorityHigh} {
		e := planned(id, 100+int(id))
		e.execute.Priority, e.execute.Exclusive = priority, id%2 == 0
		p.add([]*entry{e}, p.mark())
	}
	take := func(now, n int) []int64 {
		batch := p.take(due{now: sec(now), until: sec(now + 1), old: sec(now - 30)}, n, func(string) bool { return true })
		for _, e := range batch {
			p.putBack(e, e.execute)
		}
		return ids(batch)
	}
	for _, e := range p.entries {
		e.execute.Next = e.at
	}
	require.Equal(t, []int64{2, 1, 3}, take(102, 9), "3 only comes due, and goes behind what is")
	require.Equal(t, []int64{3, 5, 2}, take(110, 3))
	require.Equal(t, []int64{3, 5, 2, 1, 4}, take(110, 9))
	require.Equal(t, []int64{1, 2, 3, 5, 4}, take(133, 9), "what is old goes by age")
}

func TestAParkedEntryIsAnEntryLikeOthers(t *testing.T) {
	p := newPlan()
	mail := func(id int64, at int) *entry {
		e := planned(id, at)
		e.execute.Class = "mail"
		return e
	}
	room := 0
	admit := func(class string) bool {
		if class == "mail" {
			room--
			return room >= 0
		}
		return true
	}
	take := func(n int) []int64 {
		return ids(p.take(due{now: sec(9), until: sec(9)}, n, admit))
	}
	p.add([]*entry{mail(1, 1), mail(2, 2), mail(3, 3), mail(4, 4), planned(7, 7), planned(8, 8)}, p.mark())
	require.Equal(t, []int64{7}, take(1))
	early, _ := p.earliest(func(class string) bool { return class != "mail" })
	require.Equal(t, sec(8), early, "it is no reason to wake up")
	early, _ = p.earliest(func(string) bool { return true })
	require.Equal(t, sec(1), early, "until there is room")

	p.forget([]int64{2})
	p.replace([]*entry{mail(1, 1), mail(3, 5), mail(5, 3), planned(8, 8)}, p.mark())
	room = 2
	require.Equal(t, []int64{1, 5, 8}, take(9), "4 has moved on, 3 has been changed")
	room = 1
	require.Equal(t, []int64{3}, take(9))
	require.Empty(t, p.parked)

	p.add([]*entry{mail(6, 1)}, p.mark())
	room = 0
	require.Empty(t, take(9))
	p.clear()
	room = 1
	require.Empty(t, take(9))
}
