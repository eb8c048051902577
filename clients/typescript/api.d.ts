// Written by scripts/generate_typescript.py from the description of the HTTP API. Do not edit.

import type { Options, Result } from "./index.js";

/** A change of several records in one transaction. */
export interface BulkChange {
  ids: string[];
  action: "archive" | "label" | "vouch";
  tags?: string[];
  reason?: string;
}

/** Message and budget of a prompt; see Session.context. */
export interface ContextInput {
  message?: string | null;
  soft_tokens?: number | null;
  hard_tokens?: number | null;
  record_shown?: boolean;
  extra_context?: string;
}

/** Number of things removed. */
export interface Count {
  removed: number;
}

/** Changes of one day. */
export interface DayOutput {
  day: string;
  counts: { [name: string]: number };
}

/** A value of working memory; ttl of null keeps it, without ttl it lives as long as usual. */
export interface EntryInput {
  data: string;
  ttl?: string | number | null;
  category?: string | null;
  tags?: string[];
}

/** A value of working memory. */
export interface EntryOutput {
  key: string;
  data: string;
  stored_at: string;
  expires_at: string | null;
  category: string | null;
  tags: string[];
}

/** One thing that contains, or once contained, the text to erase. */
export interface ErasureItem {
  subject: string;
  id: string;
  fate: "removed" | "emptied" | "cut" | "past" | "kept";
  because: string;
  text?: string;
}

/** Contents of a prompt. */
export interface ExplainedPromptOutput {
  session: string;
  position: number;
  at: string;
  hard_tokens: number;
  tokens: { [name: string]: number };
  replayed_messages: number;
  replayed_tokens: number;
  total: number;
  question: string | null;
  lines: PromptLineOutput[];
  text: PromptTextLine[];
  is_rebuilt: boolean;
}

/** The user's rating of an answer. */
export interface FeedbackInput {
  turn: string;
  thumb: "up" | "down";
  note?: string;
}

/** Content to erase, named in one way; see Memory.admin. */
export interface ForgetInput {
  ids?: string[];
  session?: string | null;
  scope?: string | null;
  match?: string | null;
  request?: string | null;
  turns?: boolean;
}

/** Content to erase, with the digest of its preview. */
export interface ForgetOrder {
  ids?: string[];
  session?: string | null;
  scope?: string | null;
  match?: string | null;
  request?: string | null;
  turns?: boolean;
  digest: string;
}

/** Content that is erased, and remains that still contain it. */
export interface ForgetOutput {
  going: ErasureItem[];
  left: ErasureItem[];
  done: boolean;
  pending: string[];
  notes: string[];
  counts: { [name: string]: number };
  digest: string;
}

/** Erasure that somebody asked for in a conversation, until a person confirms or drops it. */
export interface ForgetRequest {
  id: string;
  scope: string;
  ids: string[];
  asked_at: string;
}

/** What to forget, in a few words. */
export interface ForgetSubject {
  subject: string;
}

/** Hits, best first, empty if nothing is relevant; and what was left out, if it was asked for. */
export interface Hits {
  hits: { [name: string]: unknown }[];
  left_out?: LeftOutHit[];
}

export interface Items_DayOutput_ {
  items: DayOutput[];
}

export interface Items_EntryOutput_ {
  items: EntryOutput[];
}

export interface Items_ForgetRequest_ {
  items: ForgetRequest[];
}

export interface Items_PageOverview_ {
  items: PageOverview[];
}

export interface Items_PlanOutput_ {
  items: PlanOutput[];
}

export interface Items_PromptOutput_ {
  items: PromptOutput[];
}

export interface Items_Record_ {
  items: MemoryRecord[];
}

export interface Items_SubjectOutput_ {
  items: SubjectOutput[];
}

export interface Items_TokenOutput_ {
  items: TokenOutput[];
}

export interface Items_Turn_ {
  items: Turn[];
}

/** A change; before and after are None where it was erased. */
export interface JournalItem {
  sequence: number;
  batch: number;
  at: string;
  actor: string;
  note: string;
  reference: string;
  operation: string;
  subject: string;
  id: string | null;
  change: string;
  before: { [name: string]: unknown } | null;
  after: { [name: string]: unknown } | null;
}

/** Changes in their order; next is the after of the next page, or its before with newest_first. */
export interface JournalPage {
  items: JournalItem[];
  next: number | null;
}

/** A hit that was left out, and why. */
export interface LeftOutHit {
  why: "archived" | "filtered" | "repeated" | "floor" | "rank";
  fields: string[];
  hit: { [name: string]: unknown };
}

/** A line of a page, or a paragraph of a log. */
export interface LineInput {
  text: string;
  at?: string | null;
}

export interface ListPage_Record_ {
  items: MemoryRecord[];
  next: string | null;
}

export interface ListPage_SessionItem_ {
  items: SessionItem[];
  next: string | null;
}

export interface ListPage_Turn_ {
  items: Turn[];
  next: string | null;
}

/** The living page of a scope. */
export interface LivingPage {
  content: string;
  sections: LivingPageSection[];
  outcome?: string;
  proposed?: number;
}

/** A line of the living page: a record, or one that was replaced, with the day in note. */
export interface LivingPageLine {
  id: string;
  text: string;
  note: string;
  permission: boolean;
}

/** A section of the living page. In "Coming up", each day is a section of level 3. */
export interface LivingPageSection {
  title: string;
  level: number;
  lines: LivingPageLine[];
}

/** A token that was just created; token is shown once. */
export interface NewToken {
  id: string;
  label: string;
  scope: string;
  rights: ("read" | "write" | "review" | "forget" | "admin")[];
  origin: "owner" | "agent" | "tool" | "web" | "import";
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
  token: string;
}

/** The whole text of a page. */
export interface PageInput {
  content: string;
}

/** A page or log in a list. */
export interface PageOverview {
  name: string;
  paragraphs: number | null;
  characters: number | null;
  updated_at: string;
}

/** A page or a log with its text. */
export interface PageText {
  content: string;
  name: string;
}

/** Outcome of a pass. */
export interface PassResult {
  state: string;
  why: string;
  batch: number | null;
}

/** Decision on groups of steps of a plan; on all open ones if none is named. */
export interface PlanDecision {
  verdict: "accept" | "reject" | "later";
  reason?: string;
  groups?: number[] | null;
}

/** Pass to plan; see Memory.dreams. */
export interface PlanInput {
  name?: string;
  output?: string | null;
  step?: string;
  scope?: string;
  origin?: "owner" | "agent" | "tool" | "web" | "import";
}

/** A plan; applied is the number by which it can be undone. */
export interface PlanOutput {
  id: string;
  name: string;
  made_at: string;
  steps: PlanStepOutput[];
  refused: { [name: string]: string }[];
  notes: string[];
  skipped: string;
  failed: string;
  usage: { [name: string]: number };
  groups: StepGroupOutput[];
  decided: boolean;
  applied: number | null;
}

/** One proposed change. */
export interface PlanStepOutput {
  why: string;
  sources: string[];
  subject: string;
  id: string;
  before: { [name: string]: unknown } | null;
  after: { [name: string]: unknown } | null;
}

/** Target scope of a promotion. */
export interface Promotion {
  to?: string;
}

/** One candidate of a context, with its present content; None if it is gone. */
export interface PromptLineOutput {
  id: string;
  type: "record" | "turn" | "session" | "paragraph";
  verdict: "selected" | "perhaps related" | "twice" | "untrusted" | "does not hold now" | "empty" | "weak" | "in every prompt" | "says the same" | "in the replayed turns" | "already shown" | "over the limit" | "over the layer's limit" | "over the budget";
  score: number;
  tokens: number;
  recent: boolean;
  content: string | null;
}

/** Contents of one context in ids and numbers. */
export interface PromptOutput {
  session: string;
  position: number;
  at: string;
  hard_tokens: number;
  tokens: { [name: string]: number };
  replayed_messages: number;
  replayed_tokens: number;
  total: number;
}

/** A line of a prompt as the model reads it, and why it is there. */
export interface PromptTextLine {
  section: string;
  text: string;
  tokens: number;
  id: string;
  reason: string;
}

/** Decision on a proposal. */
export interface ProposalDecision {
  verdict: "accept" | "reject" | "later";
  reason?: string;
}

/** A request to forget that waits for a person; None if nothing about the subject is stored. */
export interface ProposedForgetting {
  request: ForgetRequest | null;
}

/** One thing remembered for the long term. An immutable value. */
export interface MemoryRecord {
  id: string;
  content: string;
  created_at: string;
  updated_at: string;
  last_seen_at: string;
  category?: string | null;
  kind?: "fact" | "preference" | "decision" | "constraint" | "project_fact" | "task_state" | "command_result" | "failure" | "fix" | "finding" | "insight" | "lesson" | "anti_pattern" | "event";
  layer?: "episodic" | "semantic" | "procedural";
  tags?: string[];
  confidence?: number;
  importance?: number;
  source?: string;
  references?: string[];
  origin?: "owner" | "agent" | "tool" | "web" | "import";
  scope?: string;
  pinned?: boolean;
  seen_count?: number;
  valid_from?: string | null;
  valid_to?: string | null;
  expires_at?: string | null;
  metadata?: { [name: string]: string };
  archived_at?: string | null;
  archive_reason?: string;
  parts?: string[];
  draft?: boolean;
  keep_secret?: boolean;
  item_key?: string;
  resolved_dates?: string;
  replaced_by?: string;
  replaces?: string[];
  promoted_from?: string;
  perhaps_replaced_by?: string;
  about?: "" | "owner";
  until?: string | null;
  permission?: boolean;
}

/** Records to save together: all or none. */
export interface RecordBatch {
  records: RecordInput[];
}

/** A record to save; see Memory.save. */
export interface RecordInput {
  content: string;
  category?: string | null;
  kind?: "fact" | "preference" | "decision" | "constraint" | "project_fact" | "task_state" | "command_result" | "failure" | "fix" | "finding" | "insight" | "lesson" | "anti_pattern" | "event" | null;
  layer?: "episodic" | "semantic" | "procedural" | null;
  tags?: string[];
  confidence?: number;
  importance?: number;
  source?: string;
  references?: string[];
  origin?: "owner" | "agent" | "tool" | "web" | "import";
  pinned?: boolean;
  valid_from?: string | null;
  valid_to?: string | null;
  ttl?: string | number | null;
  metadata?: { [name: string]: string };
  created_at?: string | null;
  draft?: boolean;
  keep_secret?: boolean;
}

/** New values of fields; those that are not given stay (RFC 7396). */
export interface RecordPatch {
  category?: string | null;
  tags?: string[] | null;
  confidence?: number | null;
  importance?: number | null;
  source?: string | null;
  references?: string[] | null;
  origin?: "owner" | "agent" | "tool" | "web" | "import" | null;
  pinned?: boolean | null;
  valid_from?: string | null;
  valid_to?: string | null;
  metadata?: { [name: string]: string | null } | null;
  keep_secret?: boolean | null;
  content?: string | null;
  kind?: "fact" | "preference" | "decision" | "constraint" | "project_fact" | "task_state" | "command_result" | "failure" | "fix" | "finding" | "insight" | "lesson" | "anti_pattern" | "event" | null;
  layer?: "episodic" | "semantic" | "procedural" | null;
  expires_at?: string | null;
}

/** Result of a save. */
export interface SavedRecord {
  record: MemoryRecord;
  outcome: "created" | "reinforced";
  notice: string;
  reason: string;
  kind: "fact" | "preference" | "decision" | "constraint" | "project_fact" | "task_state" | "command_result" | "failure" | "fix" | "finding" | "insight" | "lesson" | "anti_pattern" | "event";
  about: "owner" | "other";
  until: string | null;
  permission: boolean;
}

/** Results of a batch, in its order. */
export interface SavedRecords {
  results: SavedRecord[];
}

/** A search; see Memory.search. */
export interface SearchInput {
  category?: string[];
  tags?: string[];
  kind?: ("fact" | "preference" | "decision" | "constraint" | "project_fact" | "task_state" | "command_result" | "failure" | "fix" | "finding" | "insight" | "lesson" | "anti_pattern" | "event")[];
  layer?: ("episodic" | "semantic" | "procedural")[];
  origin?: ("owner" | "agent" | "tool" | "web" | "import")[];
  created_after?: string | null;
  created_before?: string | null;
  valid_at?: string | null;
  query?: string | null;
  left_out?: number;
  sources?: ("records" | "turns" | "pages")[] | null;
  limit?: number;
  min_score?: number;
  mode?: "words" | "literal" | "regex";
  unit?: "turn" | "session";
  session?: string[];
  role?: ("user" | "assistant" | "system" | "tool")[];
}

/** Changes of a session. A metadata value of null removes the item. */
export interface SessionInput {
  status?: "active" | "paused" | "terminated" | null;
  metadata?: { [name: string]: string | null };
}

/** A session. */
export interface SessionItem {
  session: SessionState;
  title: string;
  turns: number;
  last_at: string;
}

/** State of a session, apart from its turns. */
export interface SessionState {
  id: string;
  created_at: string;
  status?: "active" | "paused" | "terminated";
  scope?: string;
  window_start?: number;
  summary?: string;
  metadata?: { [name: string]: string };
}

/** Options for shortening the window of a session; see Memory.dreams. */
export interface SessionWindowInput {
  kind: "read" | "compact";
  keep?: number | null;
}

/** Decision about two records that contradict each other; see Memory.settle. */
export interface SettlementInput {
  holds: string;
  other: string;
  verdict: "ended" | "wrong" | "both";
  reason?: string;
  versions?: unknown[] | null;
}

/** Numbers of steps that are made together; batch is the number by which they can be undone. */
export interface StepGroupOutput {
  state: "waiting" | "later" | "applied" | "rejected";
  reason: string;
  batch: number | null;
  steps: number[];
}

/** A name or a category that records share, and how many these are. */
export interface SubjectOutput {
  name: string;
  records: number;
  is_category: boolean;
}

/** A token to create. */
export interface TokenInput {
  label: string;
  scope?: string;
  rights?: ("read" | "write" | "review" | "forget" | "admin")[];
  origin?: "owner" | "agent" | "tool" | "web" | "import";
  expires?: string | null;
}

/** A token, without its secret. */
export interface TokenOutput {
  id: string;
  label: string;
  scope: string;
  rights: ("read" | "write" | "review" | "forget" | "admin")[];
  origin: "owner" | "agent" | "tool" | "web" | "import";
  created_at: string;
  expires_at: string | null;
  revoked_at: string | null;
  last_used_at: string | null;
}

/** One call of a tool that an assistant turn asks for. */
export interface ToolCall {
  id: string;
  name: string;
  arguments?: string;
}

/** One message of a conversation. */
export interface Turn {
  id: string;
  session: string;
  position: number;
  role: "user" | "assistant" | "system" | "tool";
  content: string;
  at: string;
  speaker?: string;
  tool_calls?: ToolCall[];
  tool_call_id?: string;
  metadata?: { [name: string]: string };
  scope?: string;
}

/** Turns to add one after the other: all or none. */
export interface TurnBatch {
  turns: TurnInput[];
}

/** Turns of a session by their ids. */
export interface TurnIds {
  turns: string[];
}

/** A turn to add; see Session.add. */
export interface TurnInput {
  content: string;
  metadata?: { [name: string]: string };
  role: "user" | "assistant" | "system" | "tool";
  speaker?: string;
  at?: string | null;
  tool_calls?: ToolCall[];
  tool_call_id?: string;
}

/** A new version of a turn; see Session.replace_turn. */
export interface TurnVersion {
  content: string;
  metadata?: { [name: string]: string };
}

/** Turns that were added, and what became of what the last message of the user asks of the memory. */
export interface TurnsOutput {
  items: Turn[];
  wishes?: WishOutput[];
}

/** Changes to undo, named in one of three ways; see History.undo. */
export interface UndoInput {
  changes?: number[] | null;
  batch?: number | null;
  since?: number | string | null;
  dry_run?: boolean;
}

/** Changes that were undone; differences only in a dry run. */
export interface UndoOutput {
  changes: number[];
  differences: { [name: string]: unknown }[];
  left: number[];
  made: number[];
  dry_run: boolean;
}

/** What became of one wish; see reverie.repositories.wishes.WishResult. */
export interface WishOutput {
  name: "remember" | "forget" | "skip" | "pause" | "resume";
  text: string;
  record: string | null;
  request: ForgetRequest | null;
}

/** One method for each operation of the HTTP API. */
export interface Api {
  /** Save a record, or reinforce the one that says the same. */
  saveRecord(body: RecordInput, options?: { scope?: string; idempotencyKey?: string } & Options): Promise<Result<SavedRecord>>;
  /** List records, those created last first. */
  listRecords(options?: { scope?: string; as_of?: number | string | null; cursor?: string | null; limit?: number; category?: string[]; tags?: string[]; kind?: ("fact" | "preference" | "decision" | "constraint" | "project_fact" | "task_state" | "command_result" | "failure" | "fix" | "finding" | "insight" | "lesson" | "anti_pattern" | "event")[]; layer?: ("episodic" | "semantic" | "procedural")[]; origin?: ("owner" | "agent" | "tool" | "web" | "import")[]; created_after?: string | null; created_before?: string | null; valid_at?: string | null; archived?: boolean | null; pinned?: boolean | null } & Options): Promise<Result<ListPage_Record_>>;
  /** Save several records in one transaction. */
  saveRecords(body: RecordBatch, options?: { scope?: string; idempotencyKey?: string } & Options): Promise<Result<SavedRecords>>;
  /** Return a record, archived or not. */
  getRecord(id: string, options?: { scope?: string; as_of?: number | string | null } & Options): Promise<Result<MemoryRecord>>;
  /** Change fields of a record; null removes a value (RFC 7396). */
  updateRecord(id: string, body: RecordPatch, options: { scope?: string; ifMatch: string } & Options): Promise<Result<MemoryRecord>>;
  /** Take a record out of search; it can be restored. */
  archiveRecord(id: string, options: { scope?: string; reason?: string; ifMatch: string } & Options): Promise<Result<MemoryRecord>>;
  /** Bring an archived record back into search. */
  restoreRecord(id: string, options?: { scope?: string } & Options): Promise<Result<MemoryRecord>>;
  /** Say that a record is no longer true: it leaves prompts, and stays searchable. */
  endRecord(id: string, options?: { scope?: string } & Options): Promise<Result<MemoryRecord>>;
  /** Copy a record to a scope around its own. */
  promoteRecord(id: string, body: Promotion, options?: { scope?: string } & Options): Promise<Result<SavedRecord>>;
  /** Archive, label or vouch for several records in one transaction, which one undo reverts. */
  changeRecords(body: BulkChange, options?: { scope?: string } & Options): Promise<Result<ListPage_Record_>>;
  /** Decide which of two records holds; the other one ends, is archived as wrong, or holds too. */
  settleConflict(body: SettlementInput, options?: { scope?: string } & Options): Promise<Result<{ [name: string]: MemoryRecord }>>;
  /** List the changes of a record, the oldest first. */
  getRecordHistory(id: string, options?: { scope?: string } & Options): Promise<Result<JournalPage>>;
  /** Return where a record comes from. */
  getRecordBlame(id: string, options?: { scope?: string } & Options): Promise<Result<{ [name: string]: unknown }>>;
  /** Return the difference between two versions of a record; by default that of its last change. */
  getRecordDiff(id: string, options?: { scope?: string; a?: number | string | null; b?: number | string | null } & Options): Promise<Result<{ [name: string]: unknown }>>;
  /** Return what answers a query, best first; nothing if nothing is relevant. */
  search(body: SearchInput, options?: { scope?: string; as_of?: number | string | null } & Options): Promise<Result<Hits>>;
  /** Return the number of live records of each category. */
  listCategories(options?: { scope?: string } & Options): Promise<Result<{ [name: string]: number }>>;
  /** Return the number of live records that have each tag. */
  listTags(options?: { scope?: string } & Options): Promise<Result<{ [name: string]: number }>>;
  /** List the names and categories that records share, those of most records first. */
  listSubjects(options?: { scope?: string } & Options): Promise<Result<Items_SubjectOutput_>>;
  /** Return the number of records that each filter of a list finds. */
  countFilters(options?: { scope?: string } & Options): Promise<Result<{ [name: string]: unknown }>>;
  /** List all pages and logs. */
  listPages(options?: Options): Promise<Result<Items_PageOverview_>>;
  /** Add a line to the end of a page, or a paragraph to the end of a log. */
  appendToPage(name: string, body: LineInput, options?: { idempotencyKey?: string } & Options): Promise<Result<PageText>>;
  /** Return the text of a page or a log. */
  getPage(name: string, options?: Options): Promise<Result<PageText>>;
  /** Write a page as a whole; an existing one needs If-Match. */
  writePage(name: string, body: PageInput, options?: { ifMatch?: string } & Options): Promise<Result<PageText>>;
  /** Remove a page; undo brings it back. */
  deletePage(name: string, options: { ifMatch: string } & Options): Promise<Result<Count>>;
  /** Return what the scope knows as one page, each line a record. */
  getLivingPage(options?: { scope?: string } & Options): Promise<Result<LivingPage>>;
  /** Change records by the edited page; If-Match names the version that was edited. */
  editLivingPage(body: PageInput, options?: { scope?: string } & Options): Promise<Result<LivingPage>>;
  /** List sessions, the latest active first. */
  listSessions(options?: { scope?: string; cursor?: string | null; limit?: number } & Options): Promise<Result<ListPage_SessionItem_>>;
  /** Add turns at the end of a session, in one transaction. */
  addTurns(id: string, body: TurnBatch, options?: { scope?: string; idempotencyKey?: string } & Options): Promise<Result<TurnsOutput>>;
  /** List the turns of a session by position. */
  listTurns(id: string, options?: { scope?: string; cursor?: string | null; limit?: number } & Options): Promise<Result<ListPage_Turn_>>;
  /** Remove turns of a session, all or none; undo brings them back. */
  removeTurns(id: string, body: TurnIds, options?: { scope?: string } & Options): Promise<Result<Items_Turn_>>;
  /** Give a turn a new version; undo brings the earlier one back. */
  replaceTurn(id: string, turn: string, body: TurnVersion, options?: { scope?: string } & Options): Promise<Result<Turn>>;
  /** Build the context of a session for a prompt. */
  buildContext(id: string, body: ContextInput, options?: { scope?: string } & Options): Promise<Result<{ [name: string]: unknown }>>;
  /** List the entries of the prompt log, the newest first. */
  listPacks(options?: { scope?: string; limit?: number } & Options): Promise<Result<Items_PromptOutput_>>;
  /** List the entries of the prompt log, the newest first. */
  listPacksOfSession(id: string, options?: { scope?: string; limit?: number } & Options): Promise<Result<Items_PromptOutput_>>;
  /** Return the candidates for the prompt of one turn: each line with its source, score and verdict. */
  getPack(id: string, position: string, options?: { scope?: string } & Options): Promise<Result<ExplainedPromptOutput>>;
  /** Shorten the window of a session; its turns stay stored. */
  shortenWindow(id: string, body: SessionWindowInput, options?: { scope?: string } & Options): Promise<Result<PassResult>>;
  /** Save the conclusions of a session by rule, without a model. */
  concludeSession(id: string, options?: { scope?: string } & Options): Promise<Result<SavedRecords>>;
  /** Store the user's rating of an answer. */
  rateAnswer(id: string, body: FeedbackInput, options?: { scope?: string } & Options): Promise<Result<Turn>>;
  /** List the values of working memory. */
  listEntriesOfSession(id: string, options?: { scope?: string } & Options): Promise<Result<Items_EntryOutput_>>;
  /** Return a value of working memory. */
  getEntryOfSession(id: string, key: string, options?: { scope?: string } & Options): Promise<Result<EntryOutput>>;
  /** Store a value of working memory, in place of what was there. */
  setEntryOfSession(id: string, key: string, body: EntryInput, options?: { scope?: string } & Options): Promise<Result<EntryOutput>>;
  /** Remove a value of working memory. */
  deleteEntryOfSession(id: string, key: string, options?: { scope?: string } & Options): Promise<Result<Count>>;
  /** List the values of working memory. */
  listEntries(options?: { scope?: string } & Options): Promise<Result<Items_EntryOutput_>>;
  /** Return a value of working memory. */
  getEntry(key: string, options?: { scope?: string } & Options): Promise<Result<EntryOutput>>;
  /** Store a value of working memory, in place of what was there. */
  setEntry(key: string, body: EntryInput, options?: { scope?: string } & Options): Promise<Result<EntryOutput>>;
  /** Remove a value of working memory. */
  deleteEntry(key: string, options?: { scope?: string } & Options): Promise<Result<Count>>;
  /** Return the state of a session. */
  getSession(id: string, options?: { scope?: string } & Options): Promise<Result<SessionState>>;
  /** Pause, resume or terminate a session, or set its metadata. */
  changeSession(id: string, body: SessionInput, options?: { scope?: string } & Options): Promise<Result<SessionState>>;
  /** Remove a session and its turns; undo brings them back. */
  deleteSession(id: string, options?: { scope?: string } & Options): Promise<Result<Count>>;
  /** List changes in their order, or the newest first. */
  listChanges(options?: { scope?: string; after?: number; before?: number | null; since?: string | null; until?: string | null; limit?: number; id?: string | null; actor?: string | null; subject?: "record" | "turn" | "session" | "page" | "paragraph" | null; newest_first?: boolean } & Options): Promise<Result<JournalPage>>;
  /** Undo changes in one transaction. */
  undo(body: UndoInput, options?: { scope?: string; idempotencyKey?: string } & Options): Promise<Result<UndoOutput>>;
  /** List the plans that wait, the newest first. */
  listPlans(options?: Options): Promise<Result<Items_PlanOutput_>>;
  /** Plan the changes of a pass; nothing is changed before the plan is decided. */
  makePlan(body: PlanInput, options?: Options): Promise<Result<PlanOutput>>;
  /** Return a plan that waits. */
  getPlan(id: string, options?: Options): Promise<Result<PlanOutput>>;
  /** Accept, reject or put off groups of steps of a plan; accepted ones are made at once. */
  decidePlan(id: string, body: PlanDecision, options?: Options): Promise<Result<PlanOutput>>;
  /** List the records that passes propose and nobody has decided, the earliest first. */
  listProposals(options?: Options): Promise<Result<Items_Record_>>;
  /** Accept, reject or put off a proposal. */
  decideOnProposal(id: string, body: ProposalDecision, options?: Options): Promise<Result<MemoryRecord>>;
  /** Return what an erasure would remove, and what would be left. */
  previewErasure(body: ForgetInput, options?: Options): Promise<Result<ForgetOutput>>;
  /** Erase content permanently, as its preview said. */
  forget(body: ForgetOrder, options?: Options): Promise<Result<ForgetOutput>>;
  /** List the erasures that were asked for in conversations and wait for a person. */
  listForgetRequests(options?: { scope?: string } & Options): Promise<Result<Items_ForgetRequest_>>;
  /** Store a request to erase what is stored about a subject; nothing is erased before a person confirms it. */
  proposeForgetting(body: ForgetSubject, options?: { scope?: string } & Options): Promise<Result<ProposedForgetting>>;
  /** Drop a request to forget; nothing is erased. */
  dropForgetRequest(id: string, options?: { scope?: string } & Options): Promise<Result<ForgetRequest>>;
  /** Return the statistics of what can be seen from a scope. */
  getStats(options?: { scope?: string } & Options): Promise<Result<{ [name: string]: unknown }>>;
  /** Return the statistics of the whole memory, in all scopes. */
  getAllStats(options?: Options): Promise<Result<{ [name: string]: unknown }>>;
  /** Return the number of changes of each of the last days, by operation. */
  getActivity(options?: { days?: number } & Options): Promise<Result<Items_DayOutput_>>;
  /** Return the number of live records of each scope within that of the token. */
  listScopes(options?: Options): Promise<Result<{ [name: string]: { [name: string]: number } }>>;
  /** Compare the store, the journal, the search index and the files; repair nothing. */
  diagnose(options?: Options): Promise<Result<{ [name: string]: unknown }>>;
  /** List all tokens, the newest first. */
  listTokens(options?: Options): Promise<Result<Items_TokenOutput_>>;
  /** Create a token; it is shown once. */
  createToken(body: TokenInput, options?: Options): Promise<Result<NewToken>>;
  /** Revoke a token. */
  revokeToken(id: string, options?: Options): Promise<Result<TokenOutput>>;
  /** Return that the process answers. */
  getLiveness(options?: Options): Promise<Result<{ [name: string]: string }>>;
  /** Return that the store can be read and written. */
  getReadiness(options?: Options): Promise<Result<{ [name: string]: string }>>;
  /** Return counters in the text format of Prometheus. */
  getMetrics(options?: Options): Promise<Result<string>>;
}
