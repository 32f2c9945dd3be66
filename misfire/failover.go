package misfire

import (
	"context"
	"errors"
)

// NodeDied is the message of a run that is LOST.
const NodeDied = "its node died or left before it finished"

// failOver declares nodes dead that have been silent for too long, and puts runs on record as LOST that no node holds
// any more. A node that could not be declared dead, because its row is locked, waits for the next pass.
func (h *Handler) failOver(ctx context.Context) error {
	dead, err := h.nodes.Bury(ctx)
	for _, n := range dead {
		h.cfg.Log.Warn().Str("node", n.ID).Time("heartbeat", n.Heartbeat).Msg("declared dead")
	}
	return errors.Join(err, h.LoseAbandoned(ctx))
}

// LoseAbandoned puts runs on record as LOST that no node holds any more, and frees the overlap keys of runs that a person
// ended by SQL. Both may keep runs of the same jobs from starting: a node therefore does this before its first poll, too.
func (h *Handler) LoseAbandoned(ctx context.Context) error {
	problems := []error{h.runs.FreeOverlapKeys(ctx)}
	abandoned, err := h.runs.Abandoned(ctx)
	problems = append(problems, err)
	for _, instance := range abandoned {
		lost, err := h.runs.Lose(ctx, instance, NodeDied)
		h.cfg.Lost(lost)
		if len(lost) > 0 {
			h.cfg.Log.Warn().Int64("instance", instance).Int("runs", len(lost)).Msg("runs lost with their node")
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}
