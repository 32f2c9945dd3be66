package bench

import (
	"context"
	"errors"
	"time"

	"github.com/qrtz-go/qrtz/internal/proof/claimtime"
)

// ClaimTime is how long claims take by a line to the server with a delay.
type ClaimTime struct {
	DelayMs float64 `json:"delay_ms"` // there and back; 0 is the server's own socket
	claimtime.Time
}

// delays are those between process and server that claims are timed with, there and back.
var delays = []time.Duration{0, time.Millisecond, 10 * time.Millisecond}

// distance times single claims, as they become slower with the distance of the server.
func (s *site) distance(ctx context.Context, r *Report) error {
	for _, delay := range delays {
		err := s.byLine(ctx, delay, func(dsn string) error {
			times, err := claimtime.Measure(ctx, dsn, s.claimSizes)
			for _, t := range times {
				r.ClaimTimes = append(r.ClaimTimes, ClaimTime{ms(delay), t})
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// byLine calls f with the DSN of an empty database that is reached with a delay.
func (s *site) byLine(ctx context.Context, delay time.Duration, f func(dsn string) error) (err error) {
	d, err := s.emptyDatabase(ctx)
	if err != nil {
		return err
	}
	defer s.drop(context.WithoutCancel(ctx), d)
	if delay == 0 {
		return f(d.dsn)
	}
	l, dsn, err := s.distant(d.dsn, delay)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	return f(dsn)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
