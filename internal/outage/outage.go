// Package outage paces a loop whose work fails because the database is away.
package outage

import (
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"
)

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
)

// Pacer logs the first failure of an outage and its end, and says how long to pause in between. It
// belongs to one loop; it is not safe for concurrent use.
type Pacer struct {
	log      zerolog.Logger
	doing    string
	failures int
	pause    time.Duration
}

// New returns a pacer for a loop that is doing something, for example "sweep".
func New(log zerolog.Logger, doing string) *Pacer {
	return &Pacer{log: log, doing: doing}
}

// Next is how long to wait before the next try: normal after a success, and after a failure a jittered
// pause that grows from 0.1 to 2 seconds, though never longer than normal (or 0.1 seconds, if normal is less).
func (p *Pacer) Next(err error, normal time.Duration) time.Duration {
	if err == nil {
		if p.failures > 0 {
			p.log.Info().Str("doing", p.doing).Int("failed", p.failures).Msg("works again")
		}
		p.failures, p.pause = 0, 0
		return normal
	}
	if p.failures == 0 {
		p.log.Warn().Err(err).Str("doing", p.doing).Msg("failed; trying again until it works")
	}
	p.failures++
	p.pause = min(max(2*p.pause, firstPause), longestPause)
	return min(p.pause/2+rand.N(p.pause/2), max(normal, firstPause))
}
