-- The later record that may have replaced a record.
ALTER TABLE records ADD COLUMN perhaps_replaced_by TEXT;
