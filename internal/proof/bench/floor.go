package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz"
)

// Floor is what the bare SQL of a claim reaches from plain connections: as fast as its rows can be written at all.
type Floor struct {
	What        string  `json:"what"`
	Batch       int     `json:"batch"`
	Connections int     `json:"connections"`
	Fires       float64 `json:"fires"` // a second
	ServerCPU   float64 `json:"server_cores"`
}

const (
	floorHistory = "claim, run inserted, run updated to finished"
	floorNone    = "claim only"
	floorRace    = "one row a statement, all connections after the same rows"
)

// floor measures the bare SQL: claims in batches, each connection its own rows, and rows raced for as the original does.
func (s *site) floor(ctx context.Context, r *Report) error {
	for _, what := range []string{floorHistory, floorNone} {
		for _, batch := range s.floorBatches {
			for _, connections := range s.floorConnections {
				if err := s.bare(ctx, r, what, batch, connections); err != nil {
					return err
				}
			}
		}
	}
	for _, connections := range s.floorRacers {
		if err := s.bare(ctx, r, floorRace, 1, connections); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) bare(ctx context.Context, r *Report, what string, batch, connections int) error {
	d, err := s.database(ctx)
	if err != nil {
		return err
	}
	defer s.drop(context.WithoutCancel(ctx), d)
	first := time.Now().Truncate(time.Second)
	err = d.store(ctx, load{Class: tick, Executes: s.floorRows, Every: time.Second, First: first, History: qrtz.HistoryAll})
	if err != nil {
		return err
	}
	if err := d.floorNode(ctx); err != nil {
		return err
	}
	var ids []int64
	if err := d.SelectContext(ctx, &ids, `SELECT ID FROM QRTZ_EXECUTE ORDER BY ID`); err != nil {
		return err
	}
	d.SetMaxOpenConns(connections)
	before, began := processorTime(s.server.PID()), time.Now()
	end := began.Add(s.floorFor)
	var fires atomic.Int64
	var work sync.WaitGroup
	errs := make([]error, connections)
	for c := range connections {
		work.Go(func() {
			b := bareNode{db: d.DB, fires: &fires, prev: -1, next: first.UnixMilli()}
			if what == floorRace {
				errs[c] = b.race(ctx, ids, end)
			} else {
				errs[c] = b.claimAll(ctx, share(ids, c, connections), batch, what == floorHistory, end)
			}
		})
	}
	work.Wait()
	took := time.Since(began).Seconds()
	f := Floor{What: what, Batch: batch, Connections: connections, Fires: float64(fires.Load()) / took, ServerCPU: (processorTime(s.server.PID()) - before).Seconds() / took}
	r.Floor = append(r.Floor, f)
	s.say("floor: %s, batch %d, %d connections: %.0f/s, server %.2f cores", what, batch, connections, f.Fires, f.ServerCPU)
	return errors.Join(errs...)
}

// floorNode puts the rows there that a claim guards itself with.
func (d *database) floorNode(ctx context.Context) error {
	if _, err := d.ExecContext(ctx, `INSERT INTO QRTZ_APP (APPLICATION, STATE) VALUES (?, 'Y')`, benchApp); err != nil {
		return err
	}
	_, err := d.ExecContext(ctx, `INSERT INTO QRTZ_NODE (APPLICATION, HOST_IP, HOST_NAME, STATE, TIME_CHECK, INSTANCE) VALUES (?, ?, ?, 'Y', 0, ?)`,
		benchApp, floorHost, floorHost, floorInstance)
	return err
}

const (
	floorHost     = "floor"
	floorInstance = 1
)

// share is every n-th of ids from k on.
func share(ids []int64, k, n int) []int64 {
	var some []int64
	for i := k; i < len(ids); i += n {
		some = append(some, ids[i])
	}
	return some
}

// bareNode is one connection's work.
type bareNode struct {
	db    *sqlx.DB
	fires *atomic.Int64

	prev, next int64 // fire times of the rows it goes for, in milliseconds
}

// claimAll claims every row in turn, again and again. The rows of a batch lie apart, in order of id: so do fires due together.
func (b *bareNode) claimAll(ctx context.Context, ids []int64, batch int, history bool, end time.Time) error {
	batches := max(1, len(ids)/batch)
	for time.Now().Before(end) {
		for k := 0; k < batches && time.Now().Before(end); k++ {
			some := share(ids, k, batches)
			first, err := b.claim(ctx, some, history)
			if err == nil && history {
				err = b.finish(ctx, first, len(some))
			}
			if err != nil {
				return err
			}
			b.fires.Add(int64(len(some)))
		}
		b.advance()
	}
	return nil
}

const (
	bareClaimSQL = `
UPDATE QRTZ_EXECUTE E
  JOIN (SELECT ? AS ID, ? AS PREV0, ? AS NEXT0, ? AS NEXT1%s) V ON V.ID = E.ID
  JOIN QRTZ_NODE N ON N.APPLICATION = ? AND N.HOST_IP = ?
  JOIN QRTZ_APP A ON A.APPLICATION = ?
   SET E.PREV_FIRE_TIME = V.NEXT0, E.NEXT_FIRE_TIME = V.NEXT1, E.TIME_TRIGGERED = GREATEST(COALESCE(E.TIME_TRIGGERED, 0), 0) + 1,
       E.HOST_IP = ?, E.HOST_NAME = ?, E.CLAIM_TOKEN = ?, E.FENCE = E.FENCE + 1, E.CHANGED_AT = E.CHANGED_AT
 WHERE E.STATE = 'EXECUTING' AND E.PREV_FIRE_TIME <=> V.PREV0 AND E.NEXT_FIRE_TIME <=> V.NEXT0
   AND N.INSTANCE = ? AND N.STATE = 'Y' AND A.STATE = 'Y'`

	bareReadBackSQL = `SELECT ID FROM QRTZ_EXECUTE WHERE ID IN (?%s) AND CLAIM_TOKEN = ?`

	bareInsertSQL = `
INSERT INTO QRTZ_RUN (APPLICATION, JOB_ID, EXECUTE_ID, FIRE_TIME, STATE, AVAILABLE_AT, HOST_IP, INSTANCE, FENCE, CLAIMED_AT) VALUES `

	bareFinishSQL = `
UPDATE QRTZ_RUN R JOIN (SELECT ? AS ID, ? AS STARTED%s) V ON V.ID = R.ID
   SET R.STATE = 'SUCCEEDED', R.STARTED_AT = V.STARTED, R.FINISHED_AT = V.STARTED
 WHERE R.STATE = 'RUNNING' AND R.INSTANCE = ?`
)

var errNotAll = errors.New("the bare SQL did not win all its rows")

// claim claims rows in one transaction and returns the id of the first run inserted; the others follow it.
func (b *bareNode) claim(ctx context.Context, ids []int64, history bool) (firstRun int64, err error) {
	tx, err := b.db.BeginTxx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	token := rand.Int64()
	var args, keys []any
	for _, id := range ids {
		args = append(args, id, b.prev, b.next, b.next+second)
		keys = append(keys, id)
	}
	args = append(args, benchApp, floorHost, benchApp, floorHost, floorHost, token, floorInstance)
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(bareClaimSQL, strings.Repeat(" UNION ALL SELECT ?, ?, ?, ?", len(ids)-1)), args...); err != nil {
		return 0, err
	}
	var won []int64
	if err := tx.SelectContext(ctx, &won, fmt.Sprintf(bareReadBackSQL, strings.Repeat(", ?", len(ids)-1)), append(keys, token)...); err != nil {
		return 0, err
	}
	if len(won) != len(ids) {
		return 0, fmt.Errorf("%w: %d of %d", errNotAll, len(won), len(ids))
	}
	if history {
		if firstRun, err = b.insert(ctx, tx, won); err != nil {
			return 0, err
		}
	}
	return firstRun, tx.Commit()
}

const bareRaceSQL = `
UPDATE QRTZ_EXECUTE SET PREV_FIRE_TIME = NEXT_FIRE_TIME, NEXT_FIRE_TIME = ?, HOST_IP = ?, CHANGED_AT = CHANGED_AT
 WHERE ID = ? AND STATE = 'EXECUTING' AND PREV_FIRE_TIME = ? AND NEXT_FIRE_TIME = ?`

// race claims row by row what all others go for, too.
func (b *bareNode) race(ctx context.Context, ids []int64, end time.Time) error {
	for time.Now().Before(end) {
		for _, id := range ids {
			if !time.Now().Before(end) {
				break
			}
			done, err := b.db.ExecContext(ctx, bareRaceSQL, b.next+second, floorHost, id, b.prev, b.next)
			if err != nil {
				return err
			}
			won, err := done.RowsAffected()
			if err != nil {
				return err
			}
			b.fires.Add(won)
		}
		b.advance()
	}
	return nil
}

// advance goes for the next fire of each row.
func (b *bareNode) advance() { b.prev, b.next = b.next, b.next+second }

const second = int64(time.Second / time.Millisecond)

func (b *bareNode) insert(ctx context.Context, tx *sqlx.Tx, ids []int64) (firstRun int64, err error) {
	now := time.Now().UnixMilli()
	var args []any
	for _, id := range ids {
		args = append(args, benchApp, 1, id, b.next, "RUNNING", b.next, floorHost, floorInstance, 1, now)
	}
	const row = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	done, err := tx.ExecContext(ctx, bareInsertSQL+row+strings.Repeat(", "+row, len(ids)-1), args...)
	if err != nil {
		return 0, err
	}
	return done.LastInsertId()
}

func (b *bareNode) finish(ctx context.Context, firstRun int64, n int) error {
	var args []any
	now := time.Now().UnixMilli()
	for i := range int64(n) {
		args = append(args, firstRun+i, now)
	}
	done, err := b.db.ExecContext(ctx, fmt.Sprintf(bareFinishSQL, strings.Repeat(" UNION ALL SELECT ?, ?", n-1)), append(args, floorInstance)...)
	if err != nil {
		return err
	}
	if finished, err := done.RowsAffected(); err != nil || int(finished) != n {
		return errors.Join(err, fmt.Errorf("%w: finished %d of %d", errNotAll, finished, n))
	}
	return nil
}
