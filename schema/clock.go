package schema

import (
	"time"

	"github.com/jmoiron/sqlx"
)

// ClockReading is the server's clock, found in an answer that was asked for between two moments of ours.
type ClockReading struct {
	Server         time.Time // zero: none was read
	Sent, Received time.Time
}

// Scan is for a query that selects NowSQL.
func (c *ClockReading) Scan(r *sqlx.Rows) error {
	var micros int64
	err := r.Scan(&micros)
	c.Server, c.Received = time.UnixMicro(micros).UTC(), time.Now()
	return err
}
