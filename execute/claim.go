package execute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/qrtz-go/qrtz/internal/text"
	"github.com/qrtz-go/qrtz/node"
	"github.com/qrtz-go/qrtz/run"
	"github.com/qrtz-go/qrtz/schema"
)

// Applied is what became of a batch of moves.
type Applied struct {
	Moved []*Execute // the executes that were ours to move, as they are now, in order of id
	Runs  []run.Run  // the runs among their rows that are RUNNING: ours to start, in order of fire time

	// Skipped are fires put on record as SKIPPED: misfires, and fires for which an overlap rule left no room.
	Skipped []run.SkippedFire

	// InDoubt are claims whose COMMIT got no answer: they may have been won all the same. HandBackFires gives them up.
	InDoubt []Move

	// PendingInDoubt are runs of fires that were won, of jobs of which only one run may go at a time: whether they have
	// been started is in doubt. HandBackPending gives them up.
	PendingInDoubt []run.PendingRun

	// Refused are executes that the server takes no move of, for what stands in their rows. They have been set to ERROR.
	Refused []RefusedMove

	Clock schema.ClockReading

	// later is what went wrong after a packet had been committed. Such an error says nothing about the packet: it is not to be
	// carried out again.
	later error
}

// RefusedMove is a move that the server refused for reasons of its row alone.
type RefusedMove struct {
	Execute *Execute
	Err     error
}

func (a *Applied) add(b Applied) {
	a.Moved, a.Runs, a.Skipped = append(a.Moved, b.Moved...), append(a.Runs, b.Runs...), append(a.Skipped, b.Skipped...)
	a.InDoubt, a.PendingInDoubt = append(a.InDoubt, b.InDoubt...), append(a.PendingInDoubt, b.PendingInDoubt...)
	a.Refused, a.later = append(a.Refused, b.Refused...), errors.Join(a.later, b.later)
	if !b.Clock.Server.IsZero() {
		a.Clock = b.Clock
	}
}

// Claim carries out claims: it wins the fires it can and returns them. What another node won, and what has been changed or
// locked since it was read, is missing from the result, and is no error. So is everything if this instance, its node or its
// app is off. What was won is in the result also when there is an error.
func (s *Store) Claim(ctx context.Context, who node.Instance, moves []Move) (Applied, error) {
	a, err := s.apply(ctx, claiming(who), moves)
	if err != nil {
		return a, fmt.Errorf("claim fires: %w", err)
	}
	return a, nil
}

// Move carries out moves, of executes in state from, that start nothing here. It needs a live instance, but not one that is
// on. Like Claim it leaves out what another node has moved meanwhile, or another transaction has locked.
func (s *Store) Move(ctx context.Context, who node.Instance, from State, moves []Move) (Applied, error) {
	a, err := s.apply(ctx, terms{who, from, false}, moves)
	if err != nil {
		return a, fmt.Errorf("move executes: %w", err)
	}
	return a, nil
}

// terms are what a batch of moves needs beside the guards of its executes.
type terms struct {
	who  node.Instance
	from State
	on   bool // the app and the node must be switched on
}

func claiming(who node.Instance) terms { return terms{who, Executing, true} }

const (
	carefulBatch = 100             // moves of one packet that asks first which rows are locked: the server compares each with each
	carefulFor   = 1 * time.Minute // after a lock was met
	packetRows   = 2000            // of QRTZ_RUN that one packet inserts: CATCH_UP may want half a million
)

// apply carries out moves in packets. A packet that is refused for the sake of one row is taken apart until the row
// stands alone; one that meets a lock is made again without the rows that are locked.
func (s *Store) apply(ctx context.Context, t terms, moves []Move) (all Applied, err error) {
	slices.SortFunc(moves, func(a, b Move) int { return cmp.Compare(a.Execute.ID, b.Execute.ID) })
	for some := range chunkMoves(moves, packetRows) {
		applied, e := s.applyAvoidingLocks(ctx, t, some)
		if refused := s.giveUp(ctx, t.from, applied.Refused, len(some)); refused != nil {
			applied.Refused, e = nil, errors.Join(e, refused)
		}
		all.add(applied)
		if err = errors.Join(err, e); e != nil && !errors.Is(e, schema.ErrCommitUnknown) {
			break
		}
	}
	slices.SortFunc(all.Runs, run.ByFireTime)
	return all, errors.Join(err, all.later)
}

// chunkMoves parts moves so that none of the parts, unless of one move, inserts more rows than most.
func chunkMoves(moves []Move, most int) func(yield func([]Move) bool) {
	return func(yield func([]Move) bool) {
		from, rows := 0, 0
		for i := range moves {
			if rows += len(moves[i].Runs); rows > most && i > from {
				if !yield(moves[from:i]) {
					return
				}
				from, rows = i, len(moves[i].Runs)
			}
		}
		if from < len(moves) {
			yield(moves[from:])
		}
	}
}

// applyAvoidingLocks has small batches leave locked rows alone at once. Large ones do so when a lock was met a short while ago.
func (s *Store) applyAvoidingLocks(ctx context.Context, t terms, moves []Move) (Applied, error) {
	if len(moves) > carefulBatch && !s.metLock(time.Now()) {
		applied, err := s.applyApart(ctx, t, moves, false)
		if !schema.Locked(err) {
			return applied, err
		}
		s.lockMet.Store(time.Now().UnixNano())
	}
	var all Applied
	for some := range slices.Chunk(moves, carefulBatch) {
		applied, err := s.applyApart(ctx, t, some, true)
		all.add(applied)
		if schema.Locked(err) {
			err = fmt.Errorf("the row of the app or of this node, or the end of QRTZ_RUN, is locked%s: %w", s.db.Blockers(ctx), err)
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

func (s *Store) metLock(now time.Time) bool {
	return now.Sub(time.Unix(0, s.lockMet.Load())) < carefulFor
}

// applyApart finds the moves that the server refuses for what stands in their rows.
func (s *Store) applyApart(ctx context.Context, t terms, moves []Move, careful bool) (Applied, error) {
	applied, err := s.applyPacket(ctx, t, moves, careful)
	switch {
	case !schema.RowFault(err):
		return applied, err
	case len(moves) > 1:
		half := len(moves) / 2
		applied, err = s.applyApart(ctx, t, moves[:half], careful)
		if err != nil && !errors.Is(err, schema.ErrCommitUnknown) {
			return applied, err
		}
		second, e := s.applyApart(ctx, t, moves[half:], careful)
		applied.add(second)
		return applied, errors.Join(err, e)
	default:
		return Applied{Refused: []RefusedMove{{moves[0].Execute, err}}}, nil
	}
}

// PAUSED_AT says when it was given up: as long as the row has not been changed since, it is not tried again.
const giveUpSQL = `
UPDATE QRTZ_EXECUTE SET STATE = 'ERROR', STATE_REASON = ?, PAUSED_AT = ` + schema.NowMillisSQL + ` WHERE ID = ? AND STATE = ?`

// giveUp sets executes to ERROR that cannot be moved. If none of several can, it is not for what stands in their rows.
func (s *Store) giveUp(ctx context.Context, from State, refused []RefusedMove, of int) error {
	if len(refused) == of && of > 1 {
		return fmt.Errorf("the server refuses the next state of all of %d executes, such as %d: %w", of, refused[0].Execute.ID, refused[0].Err)
	}
	for _, r := range refused {
		why := text.Clip(text.ASCII("the server refuses its next state: "+r.Err.Error()), 500)
		if err := s.db.Write(ctx, giveUpSQL, why, r.Execute.ID, from); err != nil {
			return fmt.Errorf("set execute %d to ERROR: %w", r.Execute.ID, err)
		}
	}
	return nil
}

// freeSQL notes, in the session, which of some executes no other transaction has locked, and locks those.
const freeSQL = `
SELECT GROUP_CONCAT(F.ID) INTO @QRTZ_FREE FROM (
  SELECT ID FROM QRTZ_EXECUTE FORCE INDEX (PRIMARY) WHERE ID IN (?) ORDER BY ID FOR UPDATE SKIP LOCKED) F`

// The switches are read by the UPDATE itself, which locks their rows: a switch thrown waits for the claim under way, and no
// claim after it sees the old one. (Seen on MariaDB 10.11 and MySQL 9.7.) They come first, so that a claim that has to wait
// for them holds nothing. The order of the join is fixed, and the key is: on a table of a few rows the optimizer would
// read, and so lock, all of them.
const (
	// Its placeholders: those of the table V, the greatest count, the state moved from, the node's id and name, the token,
	// the app, the node's id and instance, the state moved from.
	guardedUpdateSQL = `
UPDATE QRTZ_NODE N
  %s STRAIGHT_JOIN %s V
  STRAIGHT_JOIN QRTZ_EXECUTE E FORCE INDEX (PRIMARY) ON E.ID = V.ID
   SET E.STATE = V.STATE1, E.STATE_REASON = V.REASON, E.PREV_FIRE_TIME = V.PREV1, E.NEXT_FIRE_TIME = V.NEXT1,
       E.TIME_TRIGGERED = LEAST(GREATEST(COALESCE(V.FIRED0, 0), 0), ?) + V.FIRES,
       E.PAUSED_AT = IF(? = 'PAUSED', E.PAUSED_AT, NULL),
       E.HOST_IP = ?, E.HOST_NAME = ?, E.CLAIM_TOKEN = ?, E.FENCE = ` + nextFenceSQL + `,
       E.CHANGED_AT = IF(V.SAME_STATE, E.CHANGED_AT, CURRENT_TIMESTAMP(3))
 WHERE N.APPLICATION = ? AND N.HOST_IP = ? AND N.INSTANCE = ? %s
   AND E.STATE = ? AND E.PREV_FIRE_TIME <=> V.PREV0 AND E.NEXT_FIRE_TIME <=> V.NEXT0 AND E.TIME_TRIGGERED <=> V.FIRED0
   AND E.CLAIM_TOKEN <=> V.TOKEN0 AND ` + specSQL + ` = V.SPEC0`

	appOnSQL  = `STRAIGHT_JOIN QRTZ_APP A ON A.APPLICATION = N.APPLICATION AND A.STATE = 'Y' AND N.STATE = 'Y'`
	freeMoves = ` AND FIND_IN_SET(V.ID, @QRTZ_FREE)`

	// nextFenceSQL stays at the greatest fence that the table takes: a person may have written anything.
	nextFenceSQL = `LEAST(E.FENCE, 8999999999999999999) + 1`
)

// applyPacket carries out moves, which must be in order of id, in one packet.
func (s *Store) applyPacket(ctx context.Context, t terms, moves []Move, careful bool) (Applied, error) {
	var token int64
	var won *winnings
	var clock schema.ClockReading
	ids := make([]int64, len(moves))
	for i, m := range moves {
		ids[i] = m.Execute.ID
	}
	err := s.db.InPacket(ctx, func(p *schema.Packet) error {
		token, won = rand.Int64(), &winnings{}
		for i := range moves {
			moves[i].token = token
		}
		free := ""
		if careful {
			p.Exec(freeSQL, ids)
			free = freeMoves
		}
		update, args := s.guardedUpdate(t, token, free, moves)
		p.Exec(update, args...)
		s.insertRuns(p, t.who, token, moves)
		readBack(p, won, token, ids, moves)
		clock = schema.ClockReading{Sent: time.Now()}
		p.Then(clock.Scan, `SELECT `+schema.NowSQL)
		readJobs(p, won, moves)
		return nil
	})
	if errors.Is(err, schema.ErrCommitUnknown) {
		return Applied{InDoubt: moves}, err
	}
	if err != nil {
		return Applied{}, schema.ExplainNoID(err, s.db.Prefix, "QRTZ_RUN")
	}
	applied, later := s.startWon(ctx, t.who, moves, won)
	applied.Clock, applied.later = clock, errors.Join(applied.later, later)
	return applied, nil
}

func (s *Store) guardedUpdate(t terms, token int64, free string, moves []Move) (query string, args []any) {
	rows := make([]any, 0, 12*len(moves))
	for i := range moves {
		m := &moves[i]
		g := m.Execute.guard
		rows = append(rows, m.Execute.ID, g.prev, g.next, g.fired, g.token, g.spec,
			m.State, schema.OrNull(text.Clip(m.Reason, 500)), millis(m.Prev, -1), nextMillis(m.Next), m.Fires, m.State == t.from)
	}
	table, args := schema.Values(rows, "ID", "PREV0", "NEXT0", "FIRED0", "TOKEN0", "SPEC0", "STATE1", "REASON", "PREV1", "NEXT1", "FIRES", "SAME_STATE")
	app := ""
	if t.on {
		app = appOnSQL
	}
	args = append(args, int64(mostFired), t.from, t.who.NodeID, t.who.HostName, token, s.app, t.who.NodeID, t.who.ID, t.from)
	return fmt.Sprintf(guardedUpdateSQL, app, table, free), args
}
