package main

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"
)

// stalls are the times that a machine or its database stood still, by a probe that shares no row with others.
type stalls struct {
	mu  sync.Mutex
	all []span
}

const (
	probeEvery = 50 * time.Millisecond
	probeQuick = 30 * time.Millisecond // an answer that takes no longer says nothing
)

// watch writes a row of its own through a server, over and over, until ctx ends.
func (s *stalls) watch(ctx context.Context, dsn string, row int) error {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	ticker := time.NewTicker(probeEvery)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		began := time.Now()
		if began.Sub(last) > probeEvery+probeQuick { // we stood still ourselves
			s.add(span{last.Add(probeEvery), began})
		}
		try, cancel := context.WithTimeout(ctx, operation)
		_, _ = db.ExecContext(try, `UPDATE PROBE SET N = N + 1 WHERE ID = ?`, row) // an error takes its time, too
		cancel()
		last = time.Now()
		if last.Sub(began) > probeQuick {
			s.add(span{began, last})
		}
	}
}

func (s *stalls) add(one span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
}

// within is how long all was still between two times, in all.
func (s *stalls) within(from, until time.Time) (sum time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		if one.touches(from, until) {
			sum += one.until.Sub(one.from)
		}
	}
	return sum
}

func (t *torture) makeProbe(ctx context.Context) error {
	if _, err := t.db.ExecContext(ctx, `CREATE TABLE PROBE (ID INT PRIMARY KEY, N INT NOT NULL)`); err != nil {
		return err
	}
	for i := range t.dsns {
		if _, err := t.db.ExecContext(ctx, `INSERT INTO PROBE VALUES (?, 0)`, i); err != nil {
			return fmt.Errorf("probe: %w", err)
		}
	}
	return nil
}
