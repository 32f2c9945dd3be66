package poller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A fire that was claimed in company has no slot until its time. Pending runs leave it one.
func TestPendingRunsLeaveHeldFiresTheirSlots(t *testing.T) {
	benched(t, 4, func(b *bench, now time.Time) {
		b.takes = func() { time.Sleep(3 * time.Second) }
		defer func() { b.stop(); rest(8 * time.Second) }()
		fire := now.Add(1850 * time.Millisecond)
		b.put(every(1, time.Hour, now.Add(time.Second)), every(2, time.Hour, fire))
		b.start()
		rest(1100 * time.Millisecond)
		b.add(now.Add(1100*time.Millisecond), from(100, 600)...)
		rest(4 * time.Second)
		require.Empty(b.t, b.store.handed)
		for _, c := range b.begun() {
			if c.ExecuteID == 2 {
				require.Equal(b.t, fire, c.at)
				return
			}
		}
		t.Error("the fire has not begun")
	})
}
