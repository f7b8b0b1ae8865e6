package magnetar.clients;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** Marks a static method that takes a {@link Stage} and throws when a broker does it wrong. */
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.METHOD)
@interface Scenario {}
