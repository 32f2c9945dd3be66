-- When a node last saw off what OFF_SINCE and APP_OFF_SINCE say is off. A row keeps only its last switch: between then and the
-- switch that ended it, it may have been on and off again, with nobody there to see it.

ALTER TABLE QRTZ_NODE
  ADD COLUMN OFF_SEEN_AT BIGINT NULL,
  ADD COLUMN APP_OFF_SEEN_AT BIGINT NULL;
