// Package outage paces a loop whose work fails, as while the database is away, and says so once. Not part of
// qrtz's API.
package outage

import (
	"errors"
	"math/rand/v2"
	"strings"
	"time"
	"unicode"

	"github.com/rs/zerolog"
)

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second

	repeatAfter = time.Minute      // nothing is said twice within this time
	remindEvery = 10 * time.Minute // an outage that lasts is said again so often
	mostKinds   = 16               // of errors that are told apart
)

// ErrIdle is what a loop's work returns when it had nothing to try: it has neither failed nor worked.
var ErrIdle = errors.New("nothing was tried")

// Pacer logs the first failure of an outage and its end, and says how long to pause in between. It
// belongs to one loop; it is not safe for concurrent use.
type Pacer struct {
	log   zerolog.Logger
	doing string
	parts map[string]*trouble
	pause time.Duration
}

// New returns a pacer for a loop that is doing something, for example "sweep".
func New(log zerolog.Logger, doing string) *Pacer {
	return &Pacer{log: log, doing: doing, parts: map[string]*trouble{}}
}

// Next is how long to wait before the next try: normal after a success and after ErrIdle, and after a failure a jittered
// pause that grows from 0.1 to 2 seconds, though never longer than normal (or 0.1 seconds, if normal is less).
func (p *Pacer) Next(err error, normal time.Duration) time.Duration {
	if errors.Is(err, ErrIdle) {
		return normal
	}
	p.Note("", err)
	if err == nil {
		p.pause = 0
		return normal
	}
	p.pause = min(max(2*p.pause, firstPause), longestPause)
	return min(p.pause/2+rand.N(p.pause/2), max(normal, firstPause))
}

// Note logs how a part of the loop's work went that can fail while others work: it "works again" only when it has worked
// itself. A part that was not tried is not noted.
func (p *Pacer) Note(part string, err error) {
	t := p.parts[part]
	switch {
	case t == nil && err == nil:
		return
	case t == nil:
		t = &trouble{said: map[string]time.Time{}}
		p.parts[part] = t
	}
	doing := p.doing
	if part != "" {
		doing += ": " + part
	}
	if err == nil {
		t.ends(p.log.With().Str("doing", doing).Logger())
	} else {
		t.fails(p.log.With().Str("doing", doing).Logger(), Text(err))
	}
}

// trouble is what is known of the outages of one part.
type trouble struct {
	since    time.Time // the present outage's beginning; zero when there is none
	failures int
	told     time.Time            // when something was last said of it; zero if nothing was
	said     map[string]time.Time // when each kind of error was last said, in this outage or an earlier one
}

func (t *trouble) fails(log zerolog.Logger, text string) {
	now := time.Now()
	if t.since.IsZero() {
		t.since, t.failures, t.told = now, 0, time.Time{}
	}
	t.failures++
	kind := t.kindOf(text)
	last, known := t.said[kind]
	switch {
	case !known, last.Before(t.since) && now.Sub(last) >= repeatAfter:
		log.Warn().Str(zerolog.ErrorFieldName, text).Msg("failed; trying again until it works")
	case !t.told.IsZero() && now.Sub(t.told) >= remindEvery:
		log.Warn().Str(zerolog.ErrorFieldName, text).Dur("for", now.Sub(t.since)).Int("failed", t.failures).Msg("still fails")
	default:
		return
	}
	t.told, t.said[kind] = now, now
}

// ends says that an outage is over, if it was said that there is one.
func (t *trouble) ends(log zerolog.Logger) {
	if !t.since.IsZero() && !t.told.IsZero() {
		log.Info().Int("failed", t.failures).Dur("for", time.Since(t.since)).Msg("works again")
	}
	t.since = time.Time{}
}

// kindOf is what errors that differ in numbers only have in common: ports, ids, times. Once there are many, the rest are one kind.
func (t *trouble) kindOf(text string) string {
	kind := strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, text)
	if _, known := t.said[kind]; !known && len(t.said) >= mostKinds {
		return "others"
	}
	return kind
}

// maxText is how much of a text from elsewhere goes into a line of the log.
const maxText = 2 << 10

// Text is what an error says, cut where it would make a line of the log too long.
func Text(err error) string { return Clip(err.Error()) }

// Clip cuts a text from elsewhere that would make a line of the log too long.
func Clip(text string) string {
	if len(text) > maxText {
		text = text[:maxText] + " …"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
