package qrtz

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/schema"
)

// How many connections a running Scheduler keeps for itself.
const (
	ownConnections  = 6 // for claims, results, polls, sweeps and the misfire handler
	beatConnections = 1 // for heartbeats, which wait for nothing else
)

// links are the connections that a session works with. Neither handlers nor the caller's transactions can take them.
type links struct {
	own, beat *sqlx.DB
	close     func()
}

// openLinks opens the scheduler's own connections: with Config.DSN, or out of the caller's pool.
func (s *Scheduler) openLinks(ctx context.Context) (*links, error) {
	link, err := s.link()
	if err != nil {
		return nil, err
	}
	l := &links{own: link.Pool(ownConnections), beat: link.Pool(beatConnections)}
	l.close = func() { _, _ = l.own.Close(), l.beat.Close() } // what is sent has been answered
	if err := errors.Join(open(ctx, l.own, ownConnections), open(ctx, l.beat, beatConnections)); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (s *Scheduler) link() (*schema.Link, error) {
	if s.cfg.DSN != "" {
		return schema.Dial(s.cfg.DSN)
	}
	if most := s.db.Stats().MaxOpenConnections; most > 0 && most <= ownConnections+beatConnections {
		return nil, fmt.Errorf("the pool allows %d connections (SetMaxOpenConns), of which the scheduler keeps %d for itself: allow at least %d, "+
			"or give it connections of its own with Config.DSN", most, ownConnections+beatConnections, ownConnections+beatConnections+1)
	}
	return schema.Borrow(s.db.DB), nil
}

// open opens all connections of a pool at once: later, handlers may have taken what the caller's pool has.
func open(ctx context.Context, db *sqlx.DB, n int) error {
	conns := make([]*sql.Conn, 0, n)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for range n {
		c, err := db.Conn(ctx)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		conns = append(conns, c)
	}
	return nil
}

// meetFor is how long the caller's connections may take to show what the scheduler's own have written: they may lead to
// another server of a Galera cluster.
const meetFor = 5 * time.Second

// meet finds out whether the caller's connections lead to the database that the scheduler's own lead to (Config.DSN): to the one
// that holds the heartbeat of this instance. Otherwise what is declared and enqueued by the ones would never be seen by the others.
func (s *session) meet(ctx context.Context, callers *sqlx.DB) error {
	if s.cfg.DSN == "" {
		return nil
	}
	limit := min(meetFor, s.cfg.NodeTimeout/2) // this node has joined, and sends no heartbeats before it has met
	look, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	nodes := node.NewStore(callers, schema.Prefix(s.cfg.Prefix), s.cfg.App)
	for answered := false; ; {
		seen, err := nodes.Sees(look, s.member.Self().ID)
		answered = answered || err == nil
		switch over := look.Err() != nil && ctx.Err() == nil; {
		case seen:
			return nil
		case over && answered:
			return s.apart(ctx, callers)
		case over:
			s.logs.own.Warn().Err(err).Dur("after", limit).
				Msg("the *sql.DB given to Open has not answered: whether it leads to the database of Config.DSN is not known")
			return nil
		case err != nil:
			return err
		}
		select {
		case <-look.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// apart names the two databases that the scheduler was given.
func (s *session) apart(ctx context.Context, callers *sqlx.DB) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return fmt.Errorf("the *sql.DB given to Open leads to %s, Config.DSN to %s: there, this node has joined, and the *sql.DB does not show it; "+
		"both must lead to the same database", schema.Where(ctx, callers), schema.Where(ctx, s.links.own))
}
