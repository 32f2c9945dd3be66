package poller

import (
	"math"
	"time"
)

// rate is how many runs a look finds, in runs a second, as an average over the last seconds.
type rate struct {
	perSecond float64
	at        time.Time
}

const (
	rateOver    = 4 * time.Second
	looksPerRun = 20
)

func (r *rate) found(n int, now time.Time) {
	r.perSecond = r.now(now) + float64(n)/rateOver.Seconds()
	r.at = now
}

func (r *rate) now(now time.Time) float64 {
	return r.perSecond * math.Exp(-float64(now.Sub(r.at))/float64(rateOver))
}

// pause is how long to wait for the next look: a twentieth of the time in which a run is to be expected.
func (r *rate) pause(now time.Time) (pause time.Duration, worthwhile bool) {
	perSecond := r.now(now)
	if perSecond*looksPerRun*sweepEvery.Seconds() < 1 {
		return 0, false // the sweep looks as often
	}
	return max(lookFast, time.Duration(float64(time.Second)/(looksPerRun*perSecond))), true
}
