import java.io.BufferedOutputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;

/**
 * Reads and writes messages with the official classes of one kafka-clients release, for a program that compares.
 *
 * In, on standard input: blocks of a 4-byte length and a body. A body is a class name (a 2-byte length and UTF-8), a
 * version (2 bytes), and messages (a 4-byte length and bytes each). The empty class name asks for the catalogue.
 *
 * Out, on standard output: one block for each, in order. The catalogue is JSON. The answer to messages has for each:
 *
 * - a byte 0 and a reason (text), if the class refuses the bytes; else
 * - a byte 1, the number of bytes it has read (4 bytes), and the values as JSON (text); then a byte 1 and what the class
 *   writes (a 4-byte length and bytes), or a byte 0 and a reason (text) if it cannot write them.
 *
 * Text is a 4-byte length and UTF-8. Values are arrays in the order of the release's schema, untagged fields first, then
 * tagged ones by tag: a struct and an array are arrays; bytes, records and UUIDs are hexadecimal text; a double is the
 * integer of its bits.
 *
 * The classes are found and walked by reflection, because names, packages and accessors differ between releases.
 */
public final class KafkaMessages {
    /** Messages that belong to no API; a release has some of them. */
    private static final List<String> PLAIN = List.of(
        "RequestHeaderData", "ResponseHeaderData", "DefaultPrincipalData", "ConsumerProtocolSubscription",
        "ConsumerProtocolAssignment", "ControlRecordTypeSchema", "EndTxnMarker", "LeaderChangeMessage",
        "SnapshotHeaderRecord", "SnapshotFooterRecord", "KRaftVersionRecord", "VotersRecord");

    /** Releases with this class say in their schemas which structs and records may be null. */
    private static final String NULLABLE_SCHEMA = "org.apache.kafka.common.protocol.types.NullableSchema";

    private static final String PACKAGE = "org.apache.kafka.common.message.";
    private static final char[] HEX = "0123456789abcdef".toCharArray();

    private final Map<String, Walk> walks = new HashMap<>();
    private final Map<Class<?>, Map<String, Field>> fields = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        DataInputStream in = new DataInputStream(System.in);
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        KafkaMessages messages = new KafkaMessages();
        for (byte[] block = block(in); block != null; block = block(in)) {
            byte[] answer = messages.answer(ByteBuffer.wrap(block));
            out.writeInt(answer.length);
            out.write(answer);
            out.flush();
        }
    }

    private static byte[] block(DataInputStream in) throws IOException {
        try {
            byte[] block = new byte[in.readInt()];
            in.readFully(block);
            return block;
        } catch (EOFException end) {
            return null;
        }
    }

    private byte[] answer(ByteBuffer block) throws Exception {
        String name = new String(bytes(block, block.getShort()), StandardCharsets.UTF_8);
        if (name.isEmpty()) {
            return catalogue().getBytes(StandardCharsets.UTF_8);
        }
        short version = block.getShort();
        Class<?> type = Class.forName(PACKAGE + name);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        while (block.hasRemaining()) {
            answer(type, version, bytes(block, block.getInt()), out);
        }
        return bytes.toByteArray();
    }

    private void answer(Class<?> type, short version, byte[] data, DataOutputStream out) throws Exception {
        ByteBuffer buffer = ByteBuffer.wrap(data);
        Message message = (Message) type.getDeclaredConstructor().newInstance();
        try {
            message.read(new ByteBufferAccessor(buffer), version);
        } catch (RuntimeException | OutOfMemoryError refusal) {
            out.writeByte(0);
            block(out, refusal.toString().getBytes(StandardCharsets.UTF_8));
            return;
        }
        out.writeByte(1);
        out.writeInt(buffer.position());
        StringBuilder json = new StringBuilder();
        walk(type, version).write(message, json);
        block(out, json.toString().getBytes(StandardCharsets.UTF_8));
        write(message, version, out);
    }

    private static void write(Message message, short version, DataOutputStream out) throws IOException {
        byte[] written;
        try {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer target = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(target), cache, version);
            written = Arrays.copyOf(target.array(), target.position());
        } catch (RuntimeException refusal) {
            out.writeByte(0);
            block(out, refusal.toString().getBytes(StandardCharsets.UTF_8));
            return;
        }
        out.writeByte(1);
        block(out, written);
    }

    private static void block(DataOutputStream out, byte[] data) throws IOException {
        out.writeInt(data.length);
        out.write(data);
    }

    private static byte[] bytes(ByteBuffer buffer, int size) {
        byte[] data = new byte[size];
        buffer.get(data);
        return data;
    }

    // The catalogue: every message of the release with the fields of each version.

    private static String catalogue() throws Exception {
        StringBuilder json = new StringBuilder("{\"exact_nulls\":").append(isThere(NULLABLE_SCHEMA));
        json.append(",\"messages\":[");
        for (ApiMessageType api : ApiMessageType.values()) {
            try {
                describe(json, api.apiKey(), "request", api.newRequest().getClass());
                describe(json, api.apiKey(), "response", api.newResponse().getClass());
            } catch (UnsupportedVersionException removed) {
                continue; // the release keeps the key of an API that it no longer speaks
            }
        }
        for (String name : PLAIN) {
            if (isThere(PACKAGE + name)) {
                describe(json, -1, "", Class.forName(PACKAGE + name));
            }
        }
        json.setLength(json.length() - 1);
        return json.append("]}").toString();
    }

    private static boolean isThere(String type) {
        try {
            Class.forName(type);
            return true;
        } catch (ClassNotFoundException absent) {
            return false;
        }
    }

    private static void describe(StringBuilder json, int key, String direction, Class<?> type) throws Exception {
        json.append("{\"class\":\"").append(type.getSimpleName()).append("\",\"api_key\":").append(key);
        json.append(",\"direction\":\"").append(direction).append("\",\"versions\":{");
        Schema[] schemas = (Schema[]) type.getField("SCHEMAS").get(null);
        int start = json.length();
        for (int version = 0; version < schemas.length; version++) {
            if (schemas[version] != null) {
                json.append('"').append(version).append("\":");
                describe(json, schemas[version]);
                json.append(',');
            }
        }
        if (json.length() > start) {
            json.setLength(json.length() - 1);
        }
        json.append("}},");
    }

    /** A schema is a list of [name, tag or null, type, nullable, array?, the fields of a struct]. */
    private static void describe(StringBuilder json, Schema schema) throws Exception {
        json.append('[');
        for (Slot slot : slots(schema)) {
            Type type = slot.type;
            Type element = element(type);
            json.append("[\"").append(slot.name).append("\",").append(slot.tag).append(",\"");
            Type inner = element == null ? type : element;
            json.append(inner instanceof Schema ? "struct" : inner.toString()).append("\",");
            json.append(type.isNullable()).append(',').append(element != null).append(',');
            if (inner instanceof Schema) {
                describe(json, (Schema) inner);
            } else {
                json.append("[]");
            }
            json.append("],");
        }
        if (json.charAt(json.length() - 1) == ',') {
            json.setLength(json.length() - 1);
        }
        json.append(']');
    }

    /** One field of a schema; tag is null outside the tagged fields. */
    private static final class Slot {
        final String name;
        final Integer tag;
        final Type type;

        Slot(String name, Integer tag, Type type) {
            this.name = name;
            this.tag = tag;
            this.type = type;
        }
    }

    private static List<Slot> slots(Schema schema) throws Exception {
        List<Slot> slots = new ArrayList<>();
        for (BoundField bound : schema.fields()) {
            if (!(bound.def.type instanceof TaggedFields)) {
                slots.add(new Slot(bound.def.name, null, bound.def.type));
            }
        }
        for (BoundField bound : schema.fields()) {
            if (bound.def.type instanceof TaggedFields) {
                for (Map.Entry<Integer, ?> entry : tagged(bound.def.type).entrySet()) {
                    var field = (org.apache.kafka.common.protocol.types.Field) entry.getValue();
                    slots.add(new Slot(field.name, entry.getKey(), field.type));
                }
            }
        }
        return slots;
    }

    private static Map<Integer, ?> tagged(Type type) throws Exception {
        Field fields = TaggedFields.class.getDeclaredField("fields");
        fields.setAccessible(true);
        return new TreeMap<>((Map<Integer, ?>) fields.get(type));
    }

    private static Type element(Type type) {
        return (Type) type.arrayElementType().orElse(null);
    }

    // The values of a message.

    /** How to write the fields of a struct as JSON. */
    private final class Walk {
        private final List<Slot> slots;
        private final List<Walk> inner = new ArrayList<>(); // null for what is no struct

        Walk(Schema schema) throws Exception {
            slots = slots(schema);
            for (Slot slot : slots) {
                Type element = element(slot.type);
                Type type = element == null ? slot.type : element;
                inner.add(type instanceof Schema ? new Walk((Schema) type) : null);
            }
        }

        void write(Object struct, StringBuilder json) throws ReflectiveOperationException {
            Map<String, Field> of = fieldsOf(struct.getClass());
            json.append('[');
            for (int index = 0; index < slots.size(); index++) {
                if (index > 0) {
                    json.append(',');
                }
                value(of.get(normal(slots.get(index).name)).get(struct), inner.get(index), json);
            }
            json.append(']');
        }
    }

    private Walk walk(Class<?> type, short version) throws Exception {
        String key = type.getSimpleName() + version;
        Walk walk = walks.get(key);
        if (walk == null) {
            walk = new Walk(((Schema[]) type.getField("SCHEMAS").get(null))[version]);
            walks.put(key, walk);
        }
        return walk;
    }

    private Map<String, Field> fieldsOf(Class<?> type) {
        return fields.computeIfAbsent(type, unknown -> {
            Map<String, Field> found = new HashMap<>();
            for (Field field : type.getDeclaredFields()) {
                field.setAccessible(true);
                found.put(normal(field.getName()), field);
            }
            return found;
        });
    }

    private static String normal(String name) {
        return name.replace("_", "").toLowerCase(Locale.ROOT);
    }

    private static void value(Object value, Walk struct, StringBuilder json) throws ReflectiveOperationException {
        if (value == null) {
            json.append("null");
        } else if (value instanceof Collection) {
            array((Collection<?>) value, struct, json);
        } else if (struct != null) {
            struct.write(value, json);
        } else if (value instanceof String) {
            text((String) value, json);
        } else if (value instanceof Double) {
            json.append(Double.doubleToRawLongBits((Double) value));
        } else if (value instanceof Number || value instanceof Boolean) {
            json.append(value);
        } else if (value instanceof byte[]) {
            hex(ByteBuffer.wrap((byte[]) value), json);
        } else if (value instanceof ByteBuffer) {
            hex((ByteBuffer) value, json);
        } else {
            other(value, json);
        }
    }

    private static void array(Collection<?> items, Walk struct, StringBuilder json)
            throws ReflectiveOperationException {
        json.append('[');
        boolean first = true;
        for (Object item : items) {
            if (!first) {
                json.append(',');
            }
            first = false;
            value(item, struct, json);
        }
        json.append(']');
    }

    /** Records and UUIDs are of classes that have moved between releases. */
    private static void other(Object value, StringBuilder json) throws ReflectiveOperationException {
        if (value.getClass().getSimpleName().equalsIgnoreCase("uuid")) {
            ByteBuffer bits = ByteBuffer.allocate(16);
            bits.putLong((Long) call(value, "getMostSignificantBits"));
            bits.putLong((Long) call(value, "getLeastSignificantBits"));
            bits.flip();
            hex(bits, json);
        } else {
            hex((ByteBuffer) call(value, "buffer"), json);
        }
    }

    private static Object call(Object value, String name) throws ReflectiveOperationException {
        Method method = value.getClass().getMethod(name);
        try {
            return method.invoke(value);
        } catch (InvocationTargetException wrapped) {
            throw new IllegalStateException(wrapped.getCause());
        }
    }

    private static void hex(ByteBuffer data, StringBuilder json) {
        json.append('"');
        for (int at = data.position(); at < data.limit(); at++) {
            byte octet = data.get(at);
            json.append(HEX[octet >> 4 & 15]).append(HEX[octet & 15]);
        }
        json.append('"');
    }

    /** Escape as Python's json does by default, so that equal values are equal text. */
    private static void text(String text, StringBuilder json) {
        json.append('"');
        for (int at = 0; at < text.length(); at++) {
            char unit = text.charAt(at);
            int escape = "\"\\\n\r\t\f\b".indexOf(unit);
            if (escape >= 0) {
                json.append('\\').append("\"\\nrtfb".charAt(escape));
            } else if (unit >= ' ' && unit <= 0x7f) {
                json.append(unit);
            } else {
                json.append("\\u");
                for (int shift = 12; shift >= 0; shift -= 4) {
                    json.append(HEX[unit >> shift & 15]);
                }
            }
        }
        json.append('"');
    }
}
